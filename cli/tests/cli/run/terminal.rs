//! At a terminal a watched program is interrupted, stopped, goes on and ends as if it were alone.

use super::places;
use crate::common::terminal::Session;
use std::path::Path;
use std::process::Command;

/// A shell that controls jobs, with a script in which `$RUN` stands before the program.
fn shell(cache: &Path, watched: bool, script: &str) -> Session {
    let run = if watched { "\"$0\" run --force --stats --" } else { "" };
    let mut command = Command::new("sh");
    command.args(["-mc", &script.replace("$RUN", run), env!("CARGO_BIN_EXE_clockwise")]);
    command.env("XDG_CACHE_HOME", cache).env_remove("LD_PRELOAD");
    Session::start(command)
}

/// The same session alone and watched; what it told must be the same.
fn in_both_ways(test: &str, session: impl Fn(bool, &Path) -> String) {
    let (_, cache) = places(test);
    let [alone, watched] = [false, true].map(|watched| session(watched, &cache));
    assert_eq!(watched, alone, "watched (left), alone (right)");
}

#[test]
fn an_interrupt_reaches_the_program_once_and_its_answer_counts() {
    in_both_ways("interrupt", |watched, cache| {
        let script = "$RUN sh -c 'trap \"echo int\" INT; trap \"echo quit; exit 5\" QUIT; echo up; \
                      while :; do sleep 0.01; done'; echo status $?.";
        let mut session = shell(cache, watched, script);
        session.expect("up");
        session.write("\x03");
        session.expect("int");
        session.write("\x1c");
        let between = session.expect("quit");
        session.expect("status 5.");
        // Once: the terminal has sent it to both, and nobody has handed it on.
        format!("{}", between.matches("int").count())
    });
}

#[test]
fn a_program_that_an_interrupt_kills_is_seen_to_be_killed() {
    in_both_ways("killed", |watched, cache| {
        let mut session =
            shell(cache, watched, "$RUN sh -c 'echo up; exec sleep 60'; echo status $?.");
        session.expect("up");
        session.write("\x03");
        // The shell, which goes by how its child ended, ends likewise.
        let status = session.end();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGINT));
        format!("{status}")
    });
}

#[test]
fn a_program_is_stopped_and_brought_back_by_the_shell() {
    in_both_ways("stopped_by_key", |watched, cache| {
        let script = "$RUN sh -c 'echo up; read line; echo \"got $line\"; exit 7'; echo first $?.; \
                      fg > /dev/null; echo second $?.";
        let mut session = shell(cache, watched, script);
        session.expect("up");
        session.write("\x1a");
        session.expect("first ");
        let first = session.expect(".");
        session.write("hello\n");
        session.expect("got hello");
        session.expect("second ");
        let second = session.expect(".");
        assert_eq!(second, "7");
        format!("{first} {second}")
    });
}

#[test]
fn a_program_in_the_background_that_reads_the_terminal_is_stopped() {
    in_both_ways("background", |watched, cache| {
        let script = "$RUN sh -c 'read line; echo \"got $line\"; exit 3' & \
                      until grep -q '^State:.T' /proc/$!/status; do sleep 0.01; done; echo stopped.; \
                      fg > /dev/null; echo status $?.";
        let mut session = shell(cache, watched, script);
        session.expect("stopped.");
        session.write("hello\n");
        session.expect("got hello");
        session.expect("status ");
        session.expect(".")
    });
}

#[test]
fn a_program_sees_the_terminal_as_its_own() {
    in_both_ways("own", |watched, cache| {
        let script = "$RUN sh -c 'stty size; tty; test -t 0 && test -t 1 && test -t 2 && echo all'; \
                      echo status $?.";
        let mut session = shell(cache, watched, script);
        let size = session.expect("/dev/");
        session.expect("all");
        session.expect("status 0.");
        size
    });
}

#[test]
fn a_window_that_changes_its_size_is_told_to_the_program() {
    in_both_ways("window", |watched, cache| {
        let script = "$RUN sh -c 'trap \"stty size; exit 0\" WINCH; echo up; while :; do sleep 0.01; done'; \
                      echo status $?.";
        let mut session = shell(cache, watched, script);
        session.expect("up");
        session.resize(33, 77);
        session.expect("33 77");
        session.expect("status ");
        session.expect(".")
    });
}

#[test]
fn a_terminal_that_goes_away_ends_both() {
    for watched in [false, true] {
        let (_, cache) = places("hang_up");
        let script = "$RUN sh -c 'echo up; exec sleep 60'";
        let mut session = shell(&cache, watched, script);
        session.expect("up");
        let folder = cache.join("clockwise");
        session.hang_up();
        if watched {
            // What one run has in the cache goes with it.
            crate::common::wait_until(|| crate::common::names_in(&folder).is_empty());
        }
    }
}
