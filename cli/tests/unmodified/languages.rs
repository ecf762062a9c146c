//! Programs that tell the time and languages that wait by it, as the distribution has them. What each reads is bracketed
//! by the kernel's clock, read by another process; waits are judged by the scripts in `programs`.

use crate::runner::{BOUND_NS, Image, Program, compiled, installed, kernel_now, source, temporary};
use std::path::Path;

/// Runs a program with each image and compares what it tells, but for lines `realtime NANOS RESOLUTION` (or `monotonic`):
/// those must lie between two readings of the kernel's clock. Gives what else was told.
#[track_caller]
pub fn bracketed(program: &Program, images: &[Image]) -> String {
    let mut all = Vec::new();
    for image in images {
        let before = kernel_now();
        let ran = program.run(image).holds();
        let after = kernel_now();
        let (mut rest, mut readings) = (String::new(), 0);
        for line in ran.stdout.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let clock = match words[0] {
                "realtime" => 0,
                "monotonic" => 1,
                _ => {
                    rest += line;
                    rest.push('\n');
                    continue;
                }
            };
            let [nanos, resolution] = [1, 2].map(|at| words[at].parse::<i64>().expect("a number"));
            let (earliest, latest) =
                (before[clock] - BOUND_NS - resolution, after[clock] + BOUND_NS);
            assert!(
                earliest <= nanos && nanos <= latest,
                "{}: {line}, not in {before:?} to {after:?}",
                ran.what
            );
            readings += 1;
        }
        assert!(readings > 0, "{}: it told no time: {rest}", ran.what);
        all.push(rest);
    }
    for (image, rest) in images.iter().zip(&all) {
        assert_eq!(&all[0], rest, "{:?} and {image:?} differ", images[0]);
    }
    all.swap_remove(0)
}

/// The bound as an argument.
pub fn bound() -> String {
    BOUND_NS.to_string()
}

#[test]
fn date_and_the_times_of_files() {
    bracketed(&Program::new("date").args(["+realtime %s%N 1"]), &Image::ALL);
    // A file that is touched between two dates: at the kernel's last tick at the earliest, which is 10 ms ago at most.
    let line = "cd \"$1\" && date '+%s%N' && touch file && date -r file '+%s%N' && date '+%s%N'";
    let program = Program::new("sh").args(["-c", line, "sh"]).args([temporary("date")]);
    for image in Image::ALL {
        let told = program.run(&image).holds().stdout;
        let times: Vec<i64> = told.lines().map(|line| line.parse().expect("a number")).collect();
        let [before, file, after] = times[..] else { panic!("{told}") };
        assert!(
            before - 10_000_000 - BOUND_NS <= file && file <= after + BOUND_NS,
            "{image:?}: {told}"
        );
    }
}

#[test]
fn bash_counts_microseconds() {
    let line = "last=0; for i in {1..30000}; do now=${EPOCHREALTIME/./}
        ((now >= last)) || echo back; last=$now; done; echo realtime ${last}000 1000";
    assert_eq!(bracketed(&Program::new("bash").args(["-c", line]), &Image::ALL), "");
}

#[test]
fn python_reads_clocks_and_waits() {
    let Some(python) = installed("python3") else { return };
    let program = Program::new(python).args([source("clocks.py")]).args([bound()]);
    assert_eq!(program.tells_the_same(&Image::ALL), "held\n");
}

#[test]
fn node_reads_clocks_and_waits() {
    let Some(node) = installed("node") else { return };
    let program = Program::new(node).args([source("clocks.js")]);
    assert_eq!(bracketed(&program, &Image::ALL), "held\n");
}

#[test]
fn perl_reads_clocks_and_waits() {
    let Some(perl) = installed("perl") else { return };
    let program = Program::new(perl).args([source("clocks.pl")]).args([bound()]);
    assert_eq!(bracketed(&program, &Image::ALL), "held\n");
}

#[test]
fn java_reads_clocks_and_waits() {
    let (Some(java), Some(javac)) = (installed("java"), installed("javac")) else { return };
    let folder = temporary("java");
    let compile =
        Program::new(javac).args(["-d".as_ref(), folder.as_path(), &source("Clocks.java")]);
    compile.run(&Image::None).holds();
    let program = Program::new(java).args(["-cp".as_ref(), folder.as_path(), "Clocks".as_ref()]);
    assert_eq!(bracketed(&program, &Image::ALL), "held\n");
}

#[test]
fn sqlite_tells_now() {
    let Some(sqlite) = installed("sqlite3") else { return };
    // One statement sees one time; a day's fraction with 9 digits has 0.1 ms.
    let query = "WITH now AS (SELECT strftime('%s%f', 'now') AS text, julianday('now') AS day)
        SELECT 'realtime ' || substr(text, 1, length(text) - 6) || substr(text, -3) || '000000 1000000' FROM now
        UNION ALL SELECT printf('realtime %d000000 1000000', round((day - 2440587.5) * 86400000.0)) FROM now";
    let program = Program::new(sqlite).args([":memory:", query]);
    assert_eq!(bracketed(&program, &Image::ALL), "");
}

/// Which of the programs' own files were bound to a library's `clock_gettime`, by what the loader logs.
fn binds_to(program: &Program, image: &Image) -> Vec<String> {
    let library = image.path().and_then(Path::to_str).expect("a path in words");
    let program = program.clone().variable("LD_DEBUG", "bindings").variable("LD_BIND_NOW", "1");
    let log = program.run(image).stderr;
    let bound =
        log.lines().filter_map(|line| line.split_once("binding file ")?.1.split_once(" to "));
    let to_library = bound.filter(|(_, to)| to.starts_with(library));
    let clocks = to_library
        .filter(|(_, to)| to.contains("`clock_gettime'") || to.contains("`gettimeofday'"));
    clocks.map(|(from, _)| from.to_owned()).collect()
}

#[test]
fn programs_are_bound_to_the_image_by_the_loader() {
    let programs = [
        ("date", vec!["+%s"]),
        ("python3", vec!["-c", "pass"]),
        ("node", vec!["-e", ""]),
        ("perl", vec!["-MTime::HiRes", "-e", ""]),
        ("java", vec!["-version"]),
        ("sqlite3", vec!["--version"]),
        ("redis-server", vec!["--version"]),
        ("postgres", vec!["--version"]),
        ("pg_test_timing", vec!["--help"]),
        ("stress-ng", vec!["--version"]),
        ("fio", vec!["--version"]),
    ];
    for (name, args) in programs {
        let Some(path) = installed(name) else { continue };
        let program = Program::new(path).args(args);
        for image in Image::BOTH {
            let bound = binds_to(&program, &image);
            assert!(!bound.is_empty(), "nothing of {name} takes its time from {image:?}");
        }
    }
    assert_eq!(binds_to(&Program::new(compiled("now", &["-static"])), &Image::Causal), [""; 0]);
}
