//! The program is started as if alone: status, arguments, environment, descriptors, signals.

use super::{chmod, compiled, forced, launch, places, script, text};
use crate::common::process::{close, hear, ignore};
use crate::common::{Ran, clockwise, run};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A way to start a command line.
type Way<'a> = &'a dyn Fn(&[&str]) -> Command;

/// What is done to a command before it starts.
type Circumstance<'a> = &'a dyn Fn(&mut Command);

/// Alone, replaced, and watched.
fn in_each_way(cache: &Path, test: impl Fn(&str, Way<'_>)) {
    let alone = |args: &[&str]| {
        let mut command = Command::new(args[0]);
        command.args(&args[1..]).stdin(Stdio::null()).env("XDG_CACHE_HOME", cache);
        command.env_remove("LD_PRELOAD");
        command
    };
    test("alone", &alone);
    test("replaced", &|args| forced(cache, &[&["--"], args].concat()));
    test("watched", &|args| forced(cache, &[&["--stats", "--"], args].concat()));
}

#[test]
fn a_program_ends_with_its_own_status_or_by_its_own_signal() {
    let (_, cache) = places("status");
    in_each_way(&cache, |way, start| {
        for status in [0, 1, 7, 255] {
            let ran = run(&mut start(&["sh", "-c", &format!("exit {status}")]));
            assert_eq!(ran.code, Some(status), "{way}: {ran:?}");
        }
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGPIPE] {
            let ran = run(&mut start(&["sh", "-c", &format!("kill -{signal} $$")]));
            assert_eq!((ran.code, ran.signal), (None, Some(signal)), "{way}: {ran:?}");
        }
    });
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_may_not_be_executed_126() {
    let (folder, cache) = places("unstarted");
    let plain = folder.join("plain");
    script(&plain, b"#!/bin/sh\n");
    chmod(&plain, 0o644);
    let (plain, folder, beyond) = (text(&plain), text(&folder), format!("{}/x", text(&plain)));
    for flags in [&[][..], &["--stats"], &["--force"]] {
        let start = |name| run(&mut launch(&cache, &[flags, &["--", name]].concat()));
        start("no-such-program").exits(127).says_only(&["`no-such-program`", "PATH", "./no-such"]);
        start("./no-such-program").exits(127).says_only(&["there is no file ./no-such-program"]);
        start(&beyond).exits(127).says_only(&["there is no file"]);
        start("").exits(127).says_only(&["PATH"]);
        start(plain).exits(126).says_only(&["may not be executed", "chmod +x"]);
        start(folder).exits(126).says_only(&["may not be executed"]);
    }
    run(&mut launch(&cache, &[])).exits(2).says(&["<CMD>"]);
}

#[test]
fn a_script_whose_interpreter_is_missing_is_127() {
    let (folder, cache) = places("interpreter");
    let file = folder.join("script");
    script(&file, b"#!/no/such/interpreter\n");
    for flags in [&[][..], &["--stats"]] {
        let ran = run(&mut forced(&cache, &[flags, &["--", text(&file)]].concat()));
        ran.exits(127).says(&[text(&file), "is there, but not what it is to be run by"]);
    }
    let ran = run(&mut launch(&cache, &["--dry-run", "--", text(&file)])).exits(2);
    let told = ran.unbroken().matches("is there, but not what it is to be run by").count();
    assert!(told == 1 && !ran.stdout.contains("would be"), "{}", ran.stdout);
    // One that is there and may not be executed.
    let plain = folder.join("plain");
    script(&plain, b"#!/bin/sh\n");
    chmod(&plain, 0o644);
    script(&file, format!("#!{}\n", text(&plain)).as_bytes());
    run(&mut launch(&cache, &["--", text(&file)])).exits(126).says(&["may not be executed"]);
    let ran = run(&mut launch(&cache, &["--dry-run", "--format", "json", text(&file)])).exits(2);
    assert_eq!(ran.json()["program"]["reach"], "missing");
}

#[test]
fn arguments_arrive_as_they_are_the_program_s_name_included() {
    let (folder, cache) = places("arguments");
    let source = "#include <stdio.h>\nint main(int n, char **v) {\n\
                  for (int i = 0; i < n; i++) { fputs(v[i], stdout); putchar(0); } }";
    let program = compiled(&folder, "arguments", source, &[]);
    let odd: [&[u8]; 8] = [b"", b" ", b"a\nb", b"\xff\xfe", b"--stats", b"--", b"-h", b"'$x'`\\\""];
    in_each_way(&cache, |way, start| {
        // Found on the PATH: then the name is not the file's.
        let mut command = start(&["arguments"]);
        command.env("PATH", &folder).args(odd.map(OsStr::from_bytes));
        let output = command.output().unwrap();
        let expected: Vec<u8> = [&b"arguments"[..]]
            .iter()
            .chain(&odd)
            .flat_map(|arg| [arg, &b"\0"[..]].concat())
            .collect();
        assert_eq!(output.stdout, expected, "{way}: {output:?}");
        let output = start(&[text(&program)]).output().unwrap();
        assert_eq!(output.stdout, [text(&program).as_bytes(), b"\0"].concat(), "{way}");
    });
}

#[test]
fn the_two_hyphens_may_be_left_out() {
    let (_, cache) = places("hyphens");
    let ran = run(&mut forced(&cache, &["sh", "-c", "echo $0 $1", "--color", "--stats"])).exits(0);
    assert_eq!(ran.stdout, "--color --stats\n");
}

#[test]
fn a_flag_that_there_is_not_is_no_program() {
    let (folder, cache) = places("flags");
    for args in
        [&["--bogus", "--", "true"][..], &["--bogus", "true"], &["--order", "relaxed", "-x"]]
    {
        let ran = run(&mut launch(&cache, args)).exits(2);
        ran.says(&[
            &format!("'{}'", args.iter().find(|arg| ["--bogus", "-x"].contains(arg)).unwrap()),
            "-- -",
        ]);
    }
    run(&mut launch(&cache, &["--stat", "true"])).exits(2).says(&["'--stats'"]);
    script(&folder.join("--bogus"), b"#!/bin/sh\necho \"$@\"\n");
    let mut command = forced(&cache, &["--", "--bogus", "--stats", "--"]);
    assert_eq!(run(command.env("PATH", &folder)).exits(0).stdout, "--stats --\n");
}

#[test]
fn a_form_of_nothing_is_refused() {
    let (_, cache) = places("form");
    let ran = run(&mut launch(&cache, &["--format", "json", "true"])).exits(2);
    ran.says_only(&["--format json", "--stats, --dry-run or --print-image"]);
    run(&mut launch(&cache, &["--format", "text", "true"])).exits(0);
}

#[test]
fn the_path_is_searched_as_execvp_does() {
    let (folder, cache) = places("path");
    let (one, two) = (folder.join("one"), folder.join("two"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&two).unwrap();
    script(&one.join("both"), b"#!/bin/sh\necho one $0\n");
    script(&two.join("both"), b"#!/bin/sh\necho two\n");
    // A file that may not be executed, and a folder, are passed over if there is something behind them.
    script(&one.join("second"), b"");
    chmod(&one.join("second"), 0o600);
    std::fs::create_dir(one.join("third")).unwrap();
    script(&two.join("second"), b"#!/bin/sh\necho second\n");
    script(&two.join("third"), b"#!/bin/sh\necho third\n");
    script(&one.join("fourth"), b"");
    chmod(&one.join("fourth"), 0o600);
    let path = format!("/no/such:{}/both:{}:{}", text(&one), text(&one), text(&two));
    in_each_way(&cache, |way, start| {
        let said = |name: &str, path: &str| {
            let ran: Ran =
                start(&[name]).env("PATH", path).current_dir(&two).output().unwrap().into();
            ran.stdout
        };
        if way == "alone" {
            // Rust's own search is by its parent's PATH.
            return;
        }
        assert_eq!(said("both", &path), format!("one {}/both\n", text(&one)), "{way}");
        assert_eq!(said("second", &path), "second\n", "{way}");
        assert_eq!(said("third", &path), "third\n", "{way}");
        // An empty entry is the current folder.
        assert_eq!(said("both", "/no/such:"), "two\n", "{way}");
        let mut command = start(&["fourth"]);
        run(command.env("PATH", &path)).exits(126).says(&["fourth may not be executed"]);
    });
}

#[test]
fn a_script_without_an_interpreter_s_name_is_the_shell_s() {
    let (folder, cache) = places("shell");
    let file = folder.join("script");
    script(&file, b"echo \"$0 $1\"; exit 3\n");
    for flags in [&["--"][..], &["--stats", "--"]] {
        let ran = run(&mut forced(&cache, &[flags, &[text(&file), "an argument"]].concat()));
        assert_eq!(ran.exits(3).stdout, format!("{} an argument\n", text(&file)));
    }
}

#[test]
fn what_is_preloaded_already_stays_and_comes_first() {
    let (folder, cache) = places("preloaded");
    let other = compiled(&folder, "other.so", "int other;", &["-shared", "-fPIC"]);
    let said = |preload: &str| {
        let mut command = forced(&cache, &["sh", "-c", "echo \"$LD_PRELOAD\""]);
        run(command.env("LD_PRELOAD", preload)).exits(0).stdout.trim_end().to_owned()
    };
    let ours = said("");
    assert!(Path::new(&ours).is_absolute() && Path::new(&ours).starts_with(&cache), "{ours}");
    assert_eq!(said(text(&other)), format!("{}:{ours}", text(&other)));
    assert_eq!(said(&format!("{0} {0}:", text(&other))), format!("{0}:{0}:{ours}", text(&other)));
    // A run within a run decides for itself, and does not load two.
    assert_eq!(said(&ours), ours);
    let relaxed = ["--order", "relaxed", "sh", "-c", "echo \"$LD_PRELOAD\""];
    let inner = run(forced(&cache, &relaxed).env("LD_PRELOAD", &ours)).exits(0).stdout;
    assert!(inner.trim_end() != ours && !inner.contains(':'), "{inner} {ours}");
}

#[test]
fn a_program_finds_descriptors_signals_and_limits_as_if_alone() {
    let (folder, cache) = places("state");
    let source = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n\
        #include <sys/resource.h>\n#include <sys/stat.h>\n#include <unistd.h>\n\
        int main(int n, char **v) { FILE *out = fopen(v[1], \"w\"); if (!out) return 9;\n\
        for (int fd = 0; fd < 64; fd++) if (fd != fileno(out)) fprintf(out, \"%d\", fcntl(fd, F_GETFD) >= 0);\n\
        sigset_t mask; sigprocmask(0, 0, &mask); fprintf(out, \"\\nmask\");\n\
        for (int s = 1; s < 65; s++) if (sigismember(&mask, s) == 1) fprintf(out, \" %d\", s);\n\
        fprintf(out, \"\\nignored\");\n\
        for (int s = 1; s < 65; s++) { struct sigaction a; if (!sigaction(s, 0, &a) && a.sa_handler == SIG_IGN) fprintf(out, \" %d\", s); }\n\
        fprintf(out, \"\\numask %o\\n\", umask(0));\n\
        for (int r = 0; r < 16; r++) { struct rlimit l; getrlimit(r, &l); fprintf(out, \"%ld %ld\\n\", (long)l.rlim_cur, (long)l.rlim_max); }\n\
        fprintf(out, \"own group %d\\n\", getpgrp() == getpid()); return fclose(out); }";
    let program = compiled(&folder, "state", source, &[]);
    let circumstances: [(&str, Circumstance<'_>); 8] = [
        ("nothing", &|_| {}),
        ("SIGPIPE heard", &|command| hear(command, libc::SIGPIPE)),
        ("SIGPIPE ignored", &|command| ignore(command, libc::SIGPIPE)),
        ("SIGCHLD ignored", &|command| ignore(command, libc::SIGCHLD)),
        ("nohup", &|command| ignore(command, libc::SIGHUP)),
        ("file size", &|command| ignore(command, libc::SIGXFSZ)),
        ("no input", &|command| close(command, 0)),
        ("no input, output or error", &|command| (0..3).for_each(|fd| close(command, fd))),
    ];
    for (circumstance, prepare) in circumstances {
        let told = std::cell::RefCell::new(Vec::new());
        in_each_way(&cache, |way, start| {
            let file = folder.join("told");
            let mut command = start(&[text(&program), text(&file)]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            // With a mask: the shell of no language can set one, so this does.
            crate::common::process::block(&mut command, libc::SIGUSR2);
            prepare(&mut command);
            // The ways are compared as children, one of which has a parent between.
            let status = command.status().unwrap();
            assert!(status.success(), "{circumstance}, {way}: {status}");
            told.borrow_mut().push((way.to_owned(), std::fs::read_to_string(&file).unwrap()));
        });
        let told = told.into_inner();
        for (way, state) in &told[1..] {
            assert_eq!(*state, told[0].1, "{circumstance}: {way} (left) and alone (right)");
        }
    }
}

#[test]
fn the_process_is_the_same_one_where_nobody_counts() {
    let (_, cache) = places("process");
    let mut command = forced(&cache, &["sh", "-c", "echo $$"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let output: Output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), id.to_string());
}

#[test]
fn standard_input_is_passed_through() {
    let (_, cache) = places("input");
    in_each_way(&cache, |way, start| {
        let mut command = start(&["cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // More than a pipe holds: both sides are at work.
        let sent: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
        let mut input = child.stdin.take().unwrap();
        let writer = std::thread::spawn({
            let sent = sent.clone();
            move || input.write_all(&sent)
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.stdout == sent && output.status.success(), "{way}");
    });
}

#[test]
fn ages_and_orders_beyond_the_range_are_refused() {
    for age in ["999us", "251ms", "1s", "0ms"] {
        clockwise(&["run", "--max-age", age, "true"])
            .exits(2)
            .says(&["give a time from 1ms to 250ms"]);
    }
    clockwise(&["run", "--max-age", "soon", "true"]).exits(2).says(&["as in 4ms"]);
    clockwise(&["run", "--order", "odd", "true"]).exits(2).says(&["causal", "relaxed"]);
    clockwise(&["run", "--stats-file", "x", "true"]).exits(2).says(&["--stats"]);
    clockwise(&["run", "--print-image", "true"]).exits(2).says(&["--print-image"]);
}

#[test]
fn an_allocator_that_reads_the_clock_works_on_either_side_of_the_image() {
    let (folder, cache) = places("allocator");
    // It holds a lock of its own meanwhile: an image that allocates would come back to it.
    let source = "#define _GNU_SOURCE\n#include <stdint.h>\n#include <string.h>\n#include <time.h>\n\
        #include <unistd.h>\n#include <sys/mman.h>\n#include <sys/syscall.h>\n\
        static volatile int held; static volatile long owner; static char *next, *end;\n\
        void *malloc(size_t n) { long me = syscall(SYS_gettid); if (held && owner == me) _exit(3);\n\
        while (__sync_lock_test_and_set(&held, 1)); owner = me; struct timespec t;\n\
        clock_gettime(CLOCK_MONOTONIC, &t); n = (n + 31) & ~(size_t)15;\n\
        if (!next || n > (size_t)(end - next)) { size_t c = n + (8 << 20);\n\
        next = mmap(0, c, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); end = next + c; }\n\
        char *p = next + 16; *(size_t *)next = n - 16; next += n; owner = 0; __sync_lock_release(&held); return p; }\n\
        void free(void *p) { (void)p; }\n\
        void *calloc(size_t a, size_t b) { return malloc(a * b); }\n\
        void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) { size_t o = *(size_t *)((char *)p - 16);\n\
        memcpy(q, p, o < n ? o : n); } return q; }";
    let allocator = compiled(&folder, "allocator.so", source, &["-O1", "-shared", "-fPIC"]);
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/time.h>\n\
        static void *work(void *a) { for (int i = 0; i < 20000; i++) { struct timeval v; gettimeofday(&v, 0);\n\
        free(malloc(i % 900 + 1)); } return a; }\n\
        int main(void) { pthread_t t[4]; for (int i = 0; i < 4; i++) pthread_create(t + i, 0, work, 0);\n\
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0); puts(\"ok\"); return 0; }";
    let program = compiled(&folder, "program", source, &["-O1", "-pthread"]);
    // As the tool orders them, and the other way round.
    let mut after = forced(&cache, &[text(&program)]);
    assert_eq!(run(after.env("LD_PRELOAD", &allocator)).exits(0).stdout, "ok\n");
    let image = run(&mut launch(&cache, &["--print-image"])).exits(0).stdout;
    let mut before = Command::new(&program);
    before.env("LD_PRELOAD", format!("{}:{}", image.trim_end(), text(&allocator)));
    assert_eq!(run(&mut before).exits(0).stdout, "ok\n");
}

#[test]
fn a_library_that_fakes_the_time_keeps_its_say() {
    let (folder, cache) = places("faked");
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <time.h>\n\
        int clock_gettime(clockid_t id, struct timespec *t) {\n\
        int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, \"clock_gettime\");\n\
        int r = next(id, t); t->tv_sec = 42; return r; }";
    let fake = compiled(&folder, "fake.so", source, &["-shared", "-fPIC"]);
    let source = "#include <stdio.h>\n#include <time.h>\n\
        int main(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); printf(\"%ld\", (long)t.tv_sec); }";
    let program = compiled(&folder, "program", source, &[]);
    for flags in [&[][..], &["--stats"]] {
        let mut command = forced(&cache, &[flags, &[text(&program)]].concat());
        let ran = run(command.env("LD_PRELOAD", &fake)).exits(0);
        assert_eq!(ran.stdout, "42");
        // What it asks for as the next is the image.
        assert!(flags.is_empty() || ran.stderr.contains("CLOCK_REALTIME"), "{ran:?}");
    }
}
