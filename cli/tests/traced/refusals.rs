//! What cannot be counted is refused in a sentence with the remedy, exit 2.

use crate::attach::Load;
use crate::common::process::{Verdict, filter, is_root, send};
use crate::common::{Ran, not_tried, run, tool, wait_until};
use crate::support::{Counted, lines, temporary};
use std::fs;
use std::process::{Command, Stdio};

fn attach(pid: &str) -> Ran {
    run(&mut tool(&["count-calls", "--for", "1ms", "--pid", pid]))
}

#[test]
fn what_is_no_process_to_be_watched_is_refused() {
    attach("99999999").exits(2).says_only(&["there is no process 99999999"]);

    // The kernel's own threads; a container may not show them.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        attach("2").exits(2).says_only(&["2 is a thread of the kernel"]);
    } else {
        not_tried("a thread of the kernel", "none is shown here");
    }

    let mut process = Command::new("true").spawn().unwrap();
    let pid = process.id().to_string();
    let status = format!("/proc/{pid}/status");
    wait_until(|| fs::read_to_string(&status).unwrap().contains("State:\tZ"));
    attach(&pid).exits(2).says_only(&["has ended already", "its parent"]);
    process.wait().unwrap();

    let own = std::process::id();
    // This one, which is not the first; another test's may end meanwhile.
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap().to_owned();
    assert_ne!(thread, own.to_string(), "tests run on threads");
    attach(&thread).exits(2).says_only(&["is a thread of process", &format!("--pid {own}")]);
}

#[test]
fn a_32_bit_program_is_refused_while_it_runs_and_said_not_to_be_counted_when_started() {
    let path = temporary("narrow").join("narrow");
    let source = temporary("narrow").join("narrow.s");
    // exit(6) if it has an argument, else pause().
    let code = ".globl _start\n_start: cmpl $1, (%esp)\n je 1f\n mov $1, %eax\n mov $6, %ebx\n int $0x80\n\
                1: mov $29, %eax\n int $0x80\n jmp 1b\n";
    fs::write(&source, code).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-m32", "-nostdlib", "-static", "-o"]).arg(&path).arg(&source);
    if std::env::consts::ARCH != "x86_64" {
        return not_tried("a 32-bit program", "only an x86-64 has them here");
    }
    let output = gcc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let Ok(mut process) = Command::new(&path).spawn() else {
        return not_tried("a 32-bit program", "this kernel runs none");
    };
    let pid = process.id().to_string();
    let ran = attach(&pid);
    process.kill().unwrap();
    process.wait().unwrap();
    ran.exits(2).says_only(&["is a 32-bit program"]);

    let (counted, status) = Counted::of("narrow", &[path.as_os_str(), "x".as_ref()]);
    assert_eq!(status, 6);
    assert!(counted.remarks().contains("32-bit"), "{counted:#?}");
    assert_eq!(lines(&counted.processes()[0]), [""; 0]);
}

/// The tool as a user without privileges, of which only root can make one.
fn as_nobody(test: &str, args: &[&str]) -> Option<Ran> {
    if !is_root() {
        not_tried("another user", "only root can be another user");
        return None;
    }
    let path = temporary(test).join("clockwise");
    fs::copy(env!("CARGO_BIN_EXE_clockwise"), &path).unwrap();
    let mut other = Command::new("/bin/sh");
    // Its folder may not be open to others.
    let script = "exec 3< \"$0\"; exec setpriv --reuid 65534 --clear-groups /proc/self/fd/3 \"$@\"";
    Some(run(other.args(["-c", script]).arg(&path).args(args)))
}

#[test]
fn another_users_process_is_refused() {
    let mut process = Command::new("sleep").arg("100").spawn().unwrap();
    let pid = process.id().to_string();
    let ran = as_nobody("foreign", &["count-calls", "--for", "1ms", "--pid", &pid]);
    process.kill().unwrap();
    process.wait().unwrap();
    if let Some(ran) = ran {
        ran.exits(2).says_only(&["belongs to another user", "as root"]);
    }
}

#[test]
fn a_user_without_privileges_counts_what_it_starts() {
    let args = ["count-calls", "--", "/bin/sh", "-c", "date > /dev/null; exit 9"];
    if let Some(ran) = as_nobody("nobody", &args) {
        let ran = ran.exits(9);
        let counted = Counted(ran.json());
        assert!(counted.remarks().contains("without their privileges"), "{counted:#?}");
        assert!(counted.processes().iter().any(|process| !lines(process).is_empty()));
    }
}

#[test]
fn a_process_that_is_watched_already_is_refused() {
    let load = Load::start("taken", 2);
    let began = temporary("taken").join("began");
    let _ = fs::remove_file(&began);
    let mut first = tool(&["count-calls", "--pid", &load.pid(), "--began"])
        .arg(&began)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| began.exists());
    let second = attach(&load.pid());
    send(&first, libc::SIGTERM);
    assert_eq!(first.wait().unwrap().code(), Some(0));
    second.exits(2).says_only(&["is watched already", "clockwise", "end that first"]);
    attach(&load.pid()).exits(0);
}

#[test]
fn where_ptrace_is_forbidden_it_is_said_and_nothing_is_started() {
    let folder = temporary("forbidden");
    let trace = folder.join("trace");
    let _ = fs::remove_file(&trace);
    let mut tool = tool(&["count-calls", "--", "touch", trace.to_str().unwrap()]);
    filter(&mut tool, &[libc::SYS_ptrace], Verdict::Errno(libc::EPERM));
    run(&mut tool).exits(2).says_only(&["may not watch another", "ptrace"]);
    assert!(!trace.exists());
}

#[test]
fn where_ptrace_is_forbidden_a_running_process_is_refused() {
    let mut process = Command::new("sleep").arg("100").spawn().unwrap();
    let pid = process.id().to_string();
    let mut tool = tool(&["count-calls", "--for", "1ms", "--pid", &pid]);
    filter(&mut tool, &[libc::SYS_ptrace], Verdict::Errno(libc::EPERM));
    let ran = run(&mut tool);
    process.kill().unwrap();
    process.wait().unwrap();
    ran.exits(2).says_only(&["may not be watched", "ptrace"]);
}
