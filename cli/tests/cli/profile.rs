//! `clockwise profile`: programs with known numbers of calls are counted exactly, by clock, caller, thread and process,
//! however they end; and what cannot be counted is said.

use crate::common::{Ran, folder, names_in, not_tried, run, tool};
use crate::run::{compiled, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ASKER: &str = include_str!("asker.c");
/// As distributions compile, as they do for profilers, and as people do who look for a fault.
const PLAIN: [&str; 2] = ["-O2", "-pthread"];
const FRAMES: [&str; 4] =
    ["-O2", "-pthread", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
const DEBUG: [&str; 3] = ["-O2", "-pthread", "-g"];

/// A folder of this test, with the asker in it.
fn asker(test: &str, flags: &[&str]) -> (PathBuf, PathBuf) {
    let folder = folder(&format!("profile_{test}"));
    let program = compiled(&folder, "asker", ASKER, flags);
    (folder, program)
}

/// `clockwise profile` with a cache of this test alone.
fn profile(folder: &Path, flags: &[&str], command: &[&str]) -> Command {
    let mut tool = tool(&["profile"]);
    tool.args(flags).arg("--").args(command);
    tool.env("XDG_CACHE_HOME", folder.join("cache")).env_remove("LD_PRELOAD");
    tool
}

/// Profiles a program that ends with `code`, as data.
#[track_caller]
fn told_of(folder: &Path, command: &[&str], code: i32) -> Value {
    let file = folder.join("told.json");
    let ran = run(&mut profile(folder, &["--format", "json", "--save", text(&file)], command));
    let ran = ran.exits(code);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""), "all of it is in the file");
    saved(&file)
}

fn saved(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The calls of the rows in which all of these stand.
fn calls(rows: &Value, wanted: &[(&str, &str)]) -> u64 {
    let rows = rows.as_array().unwrap().iter();
    let is_it = |row: &&Value| {
        wanted.iter().all(|&(key, value)| match value {
            "" => row[key].is_null(),
            _ => row[key] == value,
        })
    };
    rows.filter(is_it).map(|row| row["calls"].as_u64().unwrap()).sum()
}

const ALL: &[(&str, &str, &str, &str, u64)] = &[
    ("mono", "clock_gettime", "CLOCK_MONOTONIC", "3000", 3000),
    ("real", "clock_gettime", "CLOCK_REALTIME", "77", 77),
    ("coarse", "clock_gettime", "CLOCK_MONOTONIC_COARSE", "1234", 1234),
    ("day", "gettimeofday", "", "50", 50),
    ("second", "time", "", "9", 9),
    ("base", "timespec_get", "TIME_UTC", "8", 8),
    ("step", "clock_getres", "CLOCK_BOOTTIME", "7", 7),
    ("odd", "clock_gettime", "clock 55", "6", 6),
];

#[test]
fn each_call_is_counted_by_clock_and_by_caller() {
    for (name, flags) in [("plain", &PLAIN[..]), ("frames", &FRAMES), ("debug", &DEBUG)] {
        let (folder, program) = asker(&format!("each_{name}"), flags);
        let words = ALL.iter().flat_map(|&(word, _, _, n, _)| [word, n]);
        let command: Vec<&str> = [text(&program)].into_iter().chain(words).collect();
        let told = told_of(&folder, &command, 0);
        assert_eq!((&told["schema"], &told["version"]), (&"clockwise.profile".into(), &1.into()));
        assert_eq!((&told["counted_by"], &told["lost"]), (&"image".into(), &0.into()));
        for &(function, call, clock, _, n) in ALL {
            let wanted = [("call", call), ("clock", clock)];
            assert_eq!(calls(&told["clocks"], &wanted), n, "{told:#}");
            let wanted = [("function", function), ("call", call), ("clock", clock)];
            assert_eq!(calls(&told["callers"], &wanted), n, "{told:#}");
        }
        let sum: u64 = ALL.iter().map(|row| row.4).sum();
        assert_eq!(told["total"]["calls"], sum, "{told:#}");
        let caller = &told["callers"].as_array().unwrap()[0];
        assert_eq!((&caller["function"], &caller["calls"]), (&"mono".into(), &3000.into()));
        assert!(caller["module"].as_str().unwrap().ends_with("/asker"), "{caller:#}");
        let line = caller["file"].as_str().map(|file| file.ends_with("asker.c"));
        assert_eq!(line, (name == "debug").then_some(true), "{caller:#}");
        assert_eq!(caller["line"].is_u64(), name == "debug");
    }
}

#[test]
fn each_thread_is_counted_though_it_has_the_stack_of_another() {
    let folder = folder("profile_threads");
    each_thread_is_counted(&folder, &compiled(&folder, "asker", ASKER, &PLAIN));
    // Another libc keeps the number of a thread elsewhere.
    let musl = folder.join("asker-musl");
    let mut compiler = Command::new("musl-gcc");
    compiler.arg("-o").arg(&musl).args(PLAIN).arg(folder.join("asker.c"));
    match compiler.status() {
        Ok(status) => {
            assert!(status.success());
            each_thread_is_counted(&folder, &musl);
        }
        Err(_) => not_tried("threads of musl", "musl-gcc is not installed"),
    }
}

#[track_caller]
fn each_thread_is_counted(folder: &Path, program: &Path) {
    let told = told_of(folder, &[text(program), "mono", "5", "after", "6", "at-once", "4"], 0);
    let mut counts: Vec<u64> = told["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| {
            let name = thread["name"].as_str().unwrap();
            assert!(thread["thread"].is_u64() && name.starts_with("asker"), "{told:#}");
            thread["calls"].as_u64().unwrap()
        })
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [5, 10, 11, 12, 13, 14, 15, 1000, 1001, 1002, 1003], "{told:#}");
    assert_eq!(calls(&told["callers"], &[("function", "real")]), 75 + 4006);
}

#[test]
fn a_signal_in_a_call_that_is_counted_loses_none() {
    let (folder, program) = asker("storm", &PLAIN);
    let file = folder.join("told.json");
    let flags = ["--format", "json", "--save", text(&file)];
    let ran = run(&mut profile(&folder, &flags, &[text(&program), "storm", "300000"])).exits(0);
    let signals: u64 = ran.stdout.trim_end().parse().unwrap();
    let told = saved(&file);
    assert!(signals > 0, "{told:#}");
    assert_eq!(calls(&told["callers"], &[("function", "real")]), signals, "{told:#}");
    assert_eq!(calls(&told["callers"], &[("function", "mono")]), 300_000, "{told:#}");
    assert_eq!(calls(&told["threads"], &[]), 300_000 + signals, "{told:#}");
}

#[test]
fn children_are_followed_and_so_is_what_a_process_becomes() {
    let (folder, program) = asker("children", &PLAIN);
    let again = ["fork", "3", "real", "4", "exec", text(&program), "day", "21", "leave"];
    let told = told_of(&folder, &[&[text(&program)], &again[..]].concat(), 7);
    let processes = told["processes"].as_array().unwrap();
    let asked: Vec<(&str, u64)> = processes
        .iter()
        .map(|process| (process["program"].as_str().unwrap(), process["calls"].as_u64().unwrap()))
        .collect();
    let expected = [("asker", 4), ("asker", 100), ("asker", 101), ("asker", 102), ("asker", 21)];
    assert_eq!(asked, expected, "{told:#}");
    let number = |at: usize| processes[at]["process"].as_u64().unwrap();
    assert_eq!(number(0), number(4), "exec keeps the number");
    assert_ne!(number(1), number(0));
    assert_eq!(calls(&told["callers"], &[("function", "mono")]), 303);
}

#[test]
fn what_was_counted_is_there_however_the_program_ends() {
    let (folder, program) = asker("ends", &PLAIN);
    let file = folder.join("told.json");
    let flags = ["--format", "json", "--save", text(&file)];
    let killed = run(&mut profile(&folder, &flags, &[text(&program), "mono", "4321", "die"]));
    assert_eq!(killed.signal, Some(libc::SIGKILL), "{killed:?}");
    assert_eq!(saved(&file)["total"]["calls"], 4321);
    for (end, calls) in [("hang", 40), ("linger", 41)] {
        let number = calls.to_string();
        let flags = [&flags[..], &["--for", "300ms"]].concat();
        let ended = run(&mut profile(&folder, &flags, &[text(&program), "mono", &number, end]));
        assert_eq!(ended.exits(0).stdout, "up\n", "the program's own");
        let told = saved(&file);
        assert_eq!(told["total"]["calls"], calls);
        assert!(told["wall_ns"].as_u64().unwrap() >= 300_000_000, "{told:#}");
    }
    let early = ["--for", "1h"];
    run(&mut profile(&folder, &early, &[text(&program), "mono", "1", "leave"])).exits(7);
    assert_eq!(names_in(&folder.join("cache/clockwise")), [""; 0], "nothing is left");
}

#[test]
fn callers_of_callers_are_in_the_stacks_where_there_are_frame_pointers() {
    let (folder, program) = asker("stacks", &FRAMES);
    let file = folder.join("stacks");
    let flags = ["--format", "folded", "--save", text(&file)];
    let command = [text(&program), "mono", "1000", "twice", "20000", "second", "1"];
    run(&mut profile(&folder, &flags, &command)).exits(0);
    let told = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<(&str, u64)> = told
        .lines()
        .map(|line| line.rsplit_once(' ').map(|(stack, n)| (stack, n.parse().unwrap())).unwrap())
        .collect();
    let sum = |end: &str| -> u64 {
        let ends = |stack: &str| stack.starts_with("asker;") && stack.ends_with(end);
        lines.iter().filter(|(stack, _)| ends(stack)).map(|&(_, n)| n).sum()
    };
    // Exact by the innermost caller, in proportion to samples beyond it.
    assert_eq!(sum(";mono;clock_gettime(CLOCK_MONOTONIC)"), 41_000, "{told}");
    let by_twice = sum(";main;twice;mono;clock_gettime(CLOCK_MONOTONIC)");
    assert!((37_000..41_000).contains(&by_twice), "{told}");
    assert_eq!(sum(";main;mono;clock_gettime(CLOCK_MONOTONIC)"), 41_000 - by_twice, "{told}");
    assert_eq!(sum(";main;second;time"), 1, "{told}");
    assert_eq!(lines.iter().map(|&(_, n)| n).sum::<u64>(), 41_001, "{told}");
    let told = told_of(&folder, &command, 0);
    assert_eq!(calls(&told["stacks"], &[]), 41_001, "{told:#}");
    let frames = told["stacks"][0]["frames"].as_array().unwrap();
    let frames: Vec<&str> = frames.iter().map(|frame| frame.as_str().unwrap()).collect();
    let end = ["main", "twice", "mono", "clock_gettime(CLOCK_MONOTONIC)"];
    assert!(frames[0] == "asker" && frames.ends_with(&end), "{frames:?}");
}

/// Two thousand places.
fn crowd() -> String {
    let calls = "A A A A A A A A A A\n".repeat(200);
    format!(
        "#include <time.h>\n#define A clock_gettime(CLOCK_MONOTONIC, &t);\n\
         int main(void) {{ struct timespec t; for (int i = 0; i < 3; i++) {{ {calls} }} return 0; }}"
    )
}

#[test]
fn calls_from_more_places_than_there_is_room_for_are_counted() {
    let folder = folder("profile_crowd");
    let program = compiled(&folder, "crowd", &crowd(), &["-O1"]);
    let told = told_of(&folder, &[text(&program)], 0);
    let [placed, lost] = [&told["total"]["calls"], &told["lost"]].map(|it| it.as_u64().unwrap());
    assert!(placed > 0 && lost > 0, "{told:#}");
    assert_eq!(placed + lost, 3 * 2000);
    run(&mut profile(&folder, &[], &[text(&program)])).exits(0).says(&["more calls found no room"]);
}

#[test]
fn a_library_that_was_closed_again_is_still_known_by_name() {
    let folder = folder("profile_closed");
    let library = "#include <time.h>\nvoid plugin_asks(int n) { struct timespec t;\n\
        for (int i = 0; i < n; i++) clock_gettime(CLOCK_BOOTTIME, &t); }";
    let library = compiled(&folder, "plugin.so", library, &["-O2", "-shared", "-fPIC"]);
    let opener = "#include <dlfcn.h>\nint main(int n, char **v) { void *l = dlopen(v[1], RTLD_NOW);\n\
        if (!l) return 9; void (*f)(int) = (void (*)(int))dlsym(l, \"plugin_asks\");\n\
        f(33); return dlclose(l); }";
    let program = compiled(&folder, "opener", opener, &["-O2", "-ldl"]);
    let told = told_of(&folder, &[text(&program), text(&library)], 0);
    assert_eq!(calls(&told["callers"], &[("function", "plugin_asks")]), 33, "{told:#}");
    let module = told["callers"][0]["module"].as_str().unwrap();
    assert!(module.ends_with("plugin.so"), "{module}");
}

/// As compilers name functions of C++ and of Rust, and one that is inlined.
const NAMES: &str = "#include <time.h>\nstatic struct timespec t;\n\
    __attribute__((noinline)) void cpp(int n) __asm__(\"_ZN2ns5Timer3nowEi\");\n\
    void cpp(int n) { while (n--) clock_gettime(CLOCK_REALTIME, &t); }\n\
    __attribute__((noinline)) void rust(int n) __asm__(\"_ZN5timer3now17h0123456789abcdefE\");\n\
    void rust(int n) { while (n--) clock_gettime(CLOCK_REALTIME, &t); }\n\
    static inline __attribute__((always_inline)) void now(void) { clock_gettime(CLOCK_TAI, &t); }\n\
    __attribute__((noinline)) void asks_inline(int n) { while (n--) now(); }\n\
    int main(void) { cpp(5); rust(6); asks_inline(7); return 0; }";

#[test]
fn names_are_as_people_wrote_them_and_inlined_functions_are_told() {
    let folder = folder("profile_names");
    let program = compiled(&folder, "names", NAMES, &["-O2"]);
    let told = told_of(&folder, &[text(&program)], 0);
    for (function, n) in [("ns::Timer::now(int)", 5), ("timer::now", 6), ("asks_inline", 7)] {
        assert_eq!(calls(&told["callers"], &[("function", function)]), n, "{told:#}");
    }
    let program = compiled(&folder, "names", NAMES, &["-O2", "-g"]);
    let told = told_of(&folder, &[text(&program)], 0);
    assert_eq!(calls(&told["callers"], &[("function", "now")]), 7, "{told:#}");
    let file = folder.join("stacks");
    let flags = ["--format", "folded", "--save", text(&file)];
    run(&mut profile(&folder, &flags, &[text(&program)])).exits(0);
    let told = std::fs::read_to_string(&file).unwrap();
    assert!(told.contains(";asks_inline;now;clock_gettime(CLOCK_TAI) 7\n"), "{told}");
}

/// Asks with anything in the register of the frame pointer: nothing, the kernel's half, code, the heap, a frame that is
/// its own caller, one at the end of the memory that there is.
const ASTRAY: &str = r#"
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
int main(void) {
  static struct timespec t;
  uintptr_t *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap((char *)page + 4096, 4096);
  uintptr_t here[4] __attribute__((aligned(16))) = {0};
  here[0] = (uintptr_t)here, here[1] = (uintptr_t)&main;
  uintptr_t up[4] __attribute__((aligned(16))) = {(uintptr_t)page + 4080, (uintptr_t)&main + 1, 0, 0};
  page[510] = (uintptr_t)page + 8192, page[511] = 0x1234567;
  uintptr_t all[] = {0, 8, 16, 1, ~0ul, ~15ul, 1ul << 63, 0xffff800000000000, (uintptr_t)&main, (uintptr_t)page,
    (uintptr_t)page + 4080, (uintptr_t)page + 4088, (uintptr_t)page + 4096, (uintptr_t)here, (uintptr_t)up,
    (uintptr_t)&t, 0x7ffffffff000, 0x7fffffffeff0};
  for (int round = 0; round < 2000; round++)
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
      __asm__ volatile("push %%rbp\n\tmov %%rsp, %%rbx\n\tand $-16, %%rsp\n\tmov %0, %%rbp\n\t"
        "mov $1, %%edi\n\tmov %1, %%rsi\n\tcall clock_gettime@PLT\n\tmov %%rbx, %%rsp\n\tpop %%rbp"
        : : "r"(all[i]), "r"(&t)
        : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
  return 0;
}
"#;

#[test]
fn a_register_that_is_no_frame_pointer_leads_nowhere() {
    if std::env::consts::ARCH != "x86_64" {
        return not_tried("frame pointers that are none", "they are set by this processor's code");
    }
    let folder = folder("profile_astray");
    let flags = ["-O1", "-mno-red-zone", "-fomit-frame-pointer"];
    let program = compiled(&folder, "astray", ASTRAY, &flags);
    let told = told_of(&folder, &[text(&program)], 0);
    assert_eq!(calls(&told["callers"], &[("function", "main")]), 18 * 2000, "{told:#}");
}

#[test]
fn a_program_that_never_asks_is_told_so_and_its_output_stays_its_own() {
    let (folder, program) = asker("nothing", &PLAIN);
    let ran = run(&mut profile(&folder, &[], &[text(&program), "leave"])).exits(7);
    assert_eq!(ran.stdout, "");
    ran.says(&["0 calls for the time", "no call was counted: the program never asks"]);
    let told = told_of(&folder, &[text(&program)], 0);
    assert!(told["nothing"].as_str().unwrap().contains("never asks"));
    assert_eq!((&told["total"]["calls"], &told["callers"]), (&0.into(), &Value::Array(vec![])));
    let hidden = ["env", "-u", "LD_PRELOAD", text(&program), "mono", "5"];
    let ran = run(&mut profile(&folder, &[], &hidden)).exits(0);
    ran.says(&["no call was counted"]);
}

#[test]
fn the_text_tells_what_the_data_does_and_fits() {
    let (folder, program) = asker("text", &DEBUG);
    let command = [text(&program), "mono", "200000", "real", "50", "day", "3", "at-once", "3"];
    let ran = run(&mut profile(&folder, &[], &command)).exits(0);
    assert_eq!(ran.stdout, "");
    for part in [
        "asker: 203,056 calls for the time in ",
        " of CPU time",
        "CLOCK_MONOTONIC",
        "gettimeofday()",
        "asker.c:",
        "under clockwise run",
        "with --order relaxed",
        "were coarse clocks enough",
        "200,000",
        "from mono (asker.c:",
    ] {
        assert!(ran.stderr.contains(part), "no {part} in {}", ran.stderr);
    }
    assert!(ran.stderr.lines().all(|line| line.chars().count() <= 100), "{}", ran.stderr);
    let ran = run(&mut profile(&folder, &["--top", "1"], &command)).exits(0);
    assert!(ran.stderr.contains("and 2 more that asked less"), "{}", ran.stderr);
}

#[test]
fn a_static_program_is_counted_by_a_tracer() {
    let flags = ["-O2", "-pthread", "-g", "-static"];
    let (folder, program) = asker("static", &flags);
    let command = [text(&program), "mono", "300", "real", "20", "fork", "2", "leave"];
    let told = told_of(&folder, &command, 7);
    assert_eq!(told["counted_by"], "tracer", "{told:#}");
    for (function, n) in [("mono", 300 + 100 + 101), ("real", 20)] {
        assert_eq!(calls(&told["callers"], &[("function", function)]), n, "{told:#}");
    }
    assert_eq!(told["total"]["calls"], 521, "{told:#}");
    assert!(told["outlook"]["run"]["cost_ns"].is_null(), "run does not reach it: {told:#}");
    let ended = ["--for", "300ms"];
    let ran = run(&mut profile(&folder, &ended, &[text(&program), "mono", "40", "hang"])).exits(0);
    assert_eq!(ran.stdout, "up\n", "the program's own");
    ran.says(&["40 calls for the time", "counted by a tracer", "linked statically"]);
}

/// Refuses itself to ask the kernel for the time, as a sandbox may to which the vDSO answers.
const REFUSING: &str = "#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <stddef.h>\n\
    #include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <time.h>\n\
    int main(void) { struct timespec t; struct sock_filter f[] = {\n\
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),\n\
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),\n\
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};\n\
    struct sock_fprog p = {4, f}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); clock_gettime(1, &t);\n\
    return prctl(PR_SET_SECCOMP, 2, &p) ? 77 : clock_gettime(1, &t) ? 1 : 0; }";

#[test]
fn a_filter_that_refuses_what_the_vdso_would_have_answered_is_told_of() {
    let folder = folder("profile_refusing");
    let program = compiled(&folder, "refusing", REFUSING, &["-O1", "-static"]);
    let ran = run(&mut profile(&folder, &[], &[text(&program)]));
    if ran.code == Some(77) {
        return not_tried("a filter of system calls", "this system has none");
    }
    ran.says(&["1 call", "refusing has a filter of system calls of its own", "--pid"]);
    let plain = compiled(&folder, "asker", ASKER, &["-O2", "-pthread", "-static"]);
    let ran = run(&mut profile(&folder, &[], &[text(&plain), "mono", "3"])).exits(0);
    assert!(!ran.stderr.contains("a filter of system calls"), "{}", ran.stderr);
}

#[test]
fn a_running_process_is_counted_and_goes_on() {
    let (folder, program) = asker("running", &DEBUG);
    let mut asking = Command::new(&program);
    let mut asking = asking.arg("on").stdout(Stdio::piped()).spawn().unwrap();
    std::io::Read::read_exact(asking.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
    let number = asking.id().to_string();
    let ran = run(&mut tool(&["profile", "--for", "500ms", "--pid", &number, "--format", "json"]));
    if ran.stderr.contains("ptrace") {
        not_tried("a running process", ran.stderr.trim_end());
    } else {
        let told = ran.exits(0).json();
        let counted =
            calls(&told["callers"], &[("function", "mono"), ("clock", "CLOCK_MONOTONIC")]);
        assert!(counted > 0, "{told:#}");
        assert_eq!(told["total"]["calls"], counted, "{told:#}");
    }
    assert_eq!(asking.try_wait().unwrap(), None, "it goes on");
    crate::common::process::send(&asking, libc::SIGTERM);
    assert_eq!(asking.wait().unwrap().code(), Some(3), "{folder:?}");
}

#[test]
fn a_child_that_has_the_memory_of_a_running_process_is_counted_and_goes_on_too() {
    let (folder, program) = asker("sharing", &PLAIN);
    let mut sharing = Command::new(&program);
    sharing.arg("share").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut sharing = sharing.spawn().unwrap();
    std::io::Read::read_exact(sharing.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
    let number = sharing.id().to_string();
    let ran = run(&mut tool(&["profile", "--for", "200ms", "--pid", &number, "--format", "json"]));
    if ran.stderr.contains("ptrace") {
        not_tried("a process whose memory is shared", ran.stderr.trim_end());
    } else {
        let told = ran.exits(0).json();
        assert!(calls(&told["callers"], &[("function", "mono")]) > 0, "{told:#}");
    }
    // It is not waited for.
    assert_eq!(sharing.try_wait().unwrap(), None);
    drop(sharing.stdin.take());
    assert_eq!(sharing.wait().unwrap().code(), Some(5), "{folder:?}");
}

#[test]
fn what_cannot_be_profiled_is_said_in_a_sentence() {
    let folder = folder("profile_refused");
    let say = |ran: Ran, code: i32, parts: &[&str]| ran.exits(code).says_only(parts);
    let missing = ["no-such-program"];
    say(run(&mut profile(&folder, &[], &missing)), 127, &["no program `no-such-program`"]);
    let nowhere = folder.join("no/such/file");
    let ran = run(&mut profile(&folder, &["--save", text(&nowhere)], &["true"]));
    say(ran, 2, &["--save", "folder"]);
    for flags in [&["--for", "1ms"][..], &["--for", "10"], &["--top", "0"], &["--format", "xml"]] {
        assert_eq!(run(&mut profile(&folder, flags, &["true"])).exits(2).stdout, "");
    }
    let nobody = ["profile", "--for", "1s", "--pid", "2147483647"];
    say(run(&mut tool(&nobody)), 2, &["no process 2147483647"]);
    run(&mut tool(&["profile"])).exits(2);
    run(&mut tool(&["profile", "--pid", "0"])).exits(2);
    run(&mut tool(&["profile", "--pid", "1", "--", "true"])).exits(2);
}
