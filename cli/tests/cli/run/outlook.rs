//! `--dry-run`: what would be gained, as words and as data.

use super::{compiled, launch, places, text};
use crate::common::{names_in, run};

#[test]
fn a_dry_run_tells_prices_place_and_verdict_and_lays_nothing() {
    let (_, cache) = places("dry");
    let json = run(&mut launch(&cache, &["--dry-run", "--format", "json", "true"]));
    let told = json.json();
    assert_eq!(names_in(&cache.join("clockwise")), [""; 0]);
    assert_eq!((&told["schema"], &told["version"]), (&"clockwise.run.dry_run".into(), &1.into()));
    assert_eq!(told["order"], "causal");
    assert_eq!(told["max_age_ns"], 4_000_000);
    assert_eq!(told["program"]["reach"], "whole");
    assert_eq!(told["image_is_there"], false);
    let image = told["image"].as_str().unwrap();
    assert!(image.starts_with(text(&std::fs::canonicalize(&cache).unwrap())), "{image}");
    let prices = told["prices"].as_array().unwrap();
    let clocks: Vec<_> = prices.iter().map(|price| price["clock"].as_str().unwrap()).collect();
    let followed = ["MONOTONIC", "REALTIME", "BOOTTIME", "TAI", "MONOTONIC_RAW"];
    assert!(
        clocks.iter().map(|clock| clock.strip_prefix("CLOCK_").unwrap()).eq(followed),
        "{clocks:?}"
    );
    for price in prices {
        assert!(price["kernel_ns"].as_f64().unwrap() > 0.0, "{price}");
        for (ours, ratio) in [("ordered_ns", "ordered_ratio"), ("relaxed_ns", "relaxed_ratio")] {
            // Both figures or neither: where the counter is unfit there is nothing to measure.
            let (kernel, ours) = (price["kernel_ns"].as_f64().unwrap(), price[ours].as_f64());
            // Numbers are read to within their last bit.
            let is_ratio =
                |told: f64| ours.is_some_and(|ours| (told * ours / kernel - 1.0).abs() < 1e-12);
            assert!(price[ratio].as_f64().map_or(ours.is_none(), is_ratio), "{price}");
            assert_eq!(ours.is_some(), told["fit"] == true, "{price}");
        }
    }
    assert_eq!(told["fit"] == true, told["unfit"].is_null(), "{told}");
    assert_eq!(json.code, Some(if told["would_preload"] == true { 0 } else { 1 }));
    let verdict = told["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("true would "), "{verdict}");
}

#[test]
fn the_kernel_s_price_is_that_of_libc_s_function() {
    let (folder, cache) = places("dry_libc");
    // Whoever is preloaded is who programs call: here one that counts how often.
    let source = "#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/syscall.h>\n\
        #include <time.h>\n#include <unistd.h>\nstatic long calls;\n\
        int clock_gettime(clockid_t id, struct timespec *t) { calls++; return syscall(SYS_clock_gettime, id, t); }\n\
        __attribute__((destructor)) static void end(void) { FILE *f = fopen(getenv(\"CALLS\"), \"w\");\n\
        if (f) { fprintf(f, \"%ld\", calls); fclose(f); } }";
    let counting = compiled(&folder, "counting.so", source, &["-shared", "-fPIC"]);
    let file = folder.join("calls");
    let mut command = launch(&cache, &["--dry-run", "--format", "json"]);
    run(command.env("LD_PRELOAD", &counting).env("CALLS", &file));
    let calls: u64 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    assert!(calls > 10_000, "{calls}");
    // A program that is not there costs nothing to find out.
    let mut command = launch(&cache, &["--dry-run", "no-such-program"]);
    run(command.env("LD_PRELOAD", &counting).env("CALLS", &file)).exits(2);
    let calls: u64 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    assert!(calls < 100, "{calls}");
}

#[test]
fn a_dry_run_needs_no_program_and_its_text_fits_a_terminal() {
    let (_, cache) = places("dry_text");
    let ran = run(&mut launch(&cache, &["--dry-run", "--order", "relaxed", "--max-age", "250ms"]));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    for part in [
        "kernel: clock_gettime of libc",
        "a prediction",
        "CLOCK_MONOTONIC",
        "kernel",
        "order relaxed",
        "every 250ms",
        "verdict",
        "coarse",
    ] {
        assert!(ran.unbroken().contains(part), "no {part}: {}", ran.stdout);
    }
    for line in ran.stdout.lines().filter(|line| !line.starts_with("image")) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let laid = run(&mut launch(&cache, &["--print-image"])).exits(0).stdout;
    let ran = run(&mut launch(&cache, &["--dry-run", "--format", "json"])).json();
    assert_eq!(ran["image"], laid.trim_end());
    assert_eq!(ran["image_is_there"], true);
    assert!(ran["program"].is_null(), "{ran}");
}

#[test]
fn a_dry_run_that_cannot_tell_exits_2_with_the_reason() {
    let (folder, cache) = places("dry_unknown");
    let ran = run(&mut launch(&cache, &["--dry-run", "no-such-program"])).exits(2);
    let told = ran.unbroken().matches("there is no program `no-such-program`").count();
    assert_eq!(told, 1, "{}", ran.stdout);
    assert!(!ran.stdout.contains("kernel"), "it has measured for nothing: {}", ran.stdout);
    std::fs::remove_dir(cache.join("clockwise")).unwrap();
    std::os::unix::fs::symlink(&folder, cache.join("clockwise")).unwrap();
    let ran = run(&mut launch(&cache, &["--dry-run", "--format", "json", "true"])).exits(2).json();
    assert!(ran["image"].is_null() && ran["would_preload"].is_null(), "{ran}");
    assert!(ran["image_refused"].as_str().unwrap().contains("is a symbolic link"), "{ran}");
}
