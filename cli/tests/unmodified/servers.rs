//! Servers and load generators of the distribution, each with and without the image.

use crate::languages::{bound, bracketed};
use crate::places::{NOBODY, Open, set_mode};
use crate::runner::{Image, Program, compiled, installed, is_root, source, temporary};

#[test]
fn redis_keeps_and_drops_keys_at_their_time_under_load() {
    let names = ["redis-server", "redis-benchmark", "redis-cli", "python3"];
    let tools: Vec<_> = names.into_iter().filter_map(installed).collect();
    if tools.len() < names.len() {
        return;
    }
    let program = Program::new("sh").args([source("redis.sh"), temporary("redis")]);
    let program = program.args(tools).args([source("redis.py")]);
    assert_eq!(program.tells_the_same(&Image::ALL), "held\n");
}

/// The images where another user can read them: root does not run PostgreSQL.
fn for_all_users(folder: &Open) -> Vec<Image> {
    let copy = |image: &Image| match image.path() {
        Some(path) => Image::Other(folder.copy(path, &format!("{image:?}.so"), 0o755)),
        None => Image::None,
    };
    Image::ALL.iter().map(copy).collect()
}

#[test]
fn postgres_has_a_clock_that_does_not_go_back_and_sleeps_long_enough() {
    let Some(initdb) = installed("initdb") else { return };
    // Through links: the other programs are beside it.
    let initdb = initdb.canonicalize().expect("a file");
    let binaries = initdb.parent().expect("a file's folder").to_owned();
    let folder = Open::new("postgres");
    let images = for_all_users(&folder);
    let (now, script) = (compiled("now", &[]), source("postgres.sh"));
    let (now, script) = (folder.copy(&now, "now", 0o755), folder.copy(&script, "script", 0o755));
    let as_user = |program: Program| {
        if is_root() { program.owned_by(NOBODY) } else { program }
    };
    set_mode(&folder.0, 0o777);
    let data = folder.0.join("data");
    let init = Program::new(initdb)
        .args(["--auth=trust", "--no-sync", "--username=postgres", "-D"])
        .args([data]);
    as_user(init).run(&Image::None).holds();
    let program =
        Program::new("sh").args([script, folder.0.clone(), binaries, now]).args([bound()]);
    let program = as_user(program.variable("PGUSER", "postgres"));
    assert_eq!(bracketed(&program, &images), "backwards|0\n2\n");
}

#[test]
fn pg_test_timing_sees_no_clock_go_back() {
    let Some(program) = installed("pg_test_timing") else { return };
    // It ends with 1 at the first reading that is earlier than the one before.
    for image in Image::BOTH {
        let ran = Program::new(&program).args(["-d", "1"]).run(&image).holds();
        assert!(ran.stdout.contains("Histogram of timing durations"), "{ran:#?}");
        let calls =
            ran.stdout.lines().filter(|line| line.trim().starts_with(|c: char| c.is_ascii_digit()));
        assert!(calls.count() > 2, "{ran:#?}");
    }
}

#[test]
fn stress_ng_verifies_clocks_and_timers() {
    let Some(program) = installed("stress-ng") else { return };
    let words = "--clock 1 --vdso 1 --timer 1 --timerfd 1 --itimer 1 --alarm 1 --timeout 1 --verify --temp-path";
    let program = Program::new(program).args(words.split(' ')).args([temporary("stress-ng")]);
    // It tries to set clocks, which must not be allowed.
    let drop = ["setpriv", "--bounding-set=-sys_time", "--inh-caps=-sys_time"];
    let program = if is_root() { program.by(drop) } else { program };
    for image in Image::ALL {
        let ran = program.run(&image).holds();
        assert!(ran.stderr.contains("successful run completed"), "{ran:#?}");
        assert!(!ran.stderr.contains("fail:"), "{ran:#?}");
    }
}

#[test]
fn fio_times_its_null_engine() {
    let Some(program) = installed("fio") else { return };
    let words = "--name=null --ioengine=null --size=1g --bs=4k --rw=randread --number_ios=100000 --output-format=json";
    for clock in ["clock_gettime", "gettimeofday"] {
        let clock = format!("--clocksource={clock}");
        let program = Program::new(&program).args(words.split(' ')).args([clock]);
        for image in Image::ALL {
            let ran = program.run(&image).holds();
            let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
            let job = &json["jobs"][0];
            assert_eq!(job["error"], 0, "{ran:#?}");
            assert_eq!(job["read"]["total_ios"], 100_000, "{ran:#?}");
            // Durations of a clock that went back would be as large as an unsigned number can be.
            let worst = job["read"]["lat_ns"]["max"].as_u64().expect("a figure");
            assert!(worst < 60_000_000_000, "{ran:#?}");
        }
    }
}
