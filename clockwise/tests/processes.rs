//! Children of fork, sandboxes, namespaces, and processes to which the counter is forbidden: each is set up in a
//! child of this program, and each child compares with the kernel's system calls.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use clockwise::{Clock, ClockId, Instant, NoCounter, Origin, Refresher, SystemTime, Unfit, coarse};
use clockwise_core::kernel::Errno;
use common::process::{
    Verdict, enter_time, filter, forbid_counter, fork, leave, tell, unshare_time,
};
use common::{CLOCKS, brackets, brackets_for, kernel, not_tried, say, unfit};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// What the program is to do, where it was started by one of its own tests.
const CHILD: &str = "CLOCKWISE_TEST_CHILD";

/// The rest of a command line that runs this program again as the child `name`.
fn again(command: &mut Command, name: &str) -> Output {
    let command = command.arg(std::env::current_exe().unwrap());
    let command = command.args(["--exact", "the_program_of_the_children", "--nocapture"]);
    command.env(CHILD, name).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The child has said that all is well, or the command has no permission to set it up.
#[track_caller]
fn is_well(what: &str, output: &Output) -> bool {
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(0) && words.contains("child: well") {
        return true;
    }
    // `unshare` and `mount` say so, and the child has not begun.
    assert!(!words.contains("child:"), "{what}: {output:?}");
    not_tried(what, words.lines().next().unwrap_or("no reason given"));
    false
}

#[test]
fn the_program_of_the_children() {
    let Some(name) = std::env::var_os(CHILD) else { return };
    tell("child: begins");
    let result = match name.to_str().unwrap() {
        "namespace" => in_a_namespace(),
        "forbidden" => without_the_counter(),
        "forbidden-coarse-first" => without_the_counter_and_coarse_first(),
        "no-sys" => without_sys(),
        "no-vdso" => without_a_vdso(),
        "sandboxed" => sandboxed_before_the_first_read(),
        other => Err(format!("no such child: {other}")),
    };
    match result {
        Ok(()) => tell("child: well"),
        Err(words) => tell(&format!("child: {words}")),
    }
    leave(0)
}

fn wrong(is_wrong: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if is_wrong { Err(words()) } else { Ok(()) }
}

/// No machine has been up for so long.
const FAR_SECONDS: i64 = 1_000_000_000;

fn in_a_namespace() -> Result<(), String> {
    brackets_for(100)?;
    // Room below the zero of a clock that has only begun.
    let two_days = Duration::from_secs(48 * 3600);
    let now = Instant::now();
    wrong((now - two_days) + two_days != now, || format!("{now:?} less two days"))
}

#[test]
fn in_a_time_namespace_ours_is_the_kernels_there() {
    let up = kernel(ClockId::BOOTTIME) / 1_000_000_000;
    let far = FAR_SECONDS.to_string();
    // Seconds after the boot; a monotonic clock may not begin below zero.
    let early = (5 - up).to_string();
    for (monotonic, boottime) in [(&far, "2000000000"), (&"86400".into(), "0"), (&early, &early)] {
        let mut command = Command::new("unshare");
        command.args(["-U", "-r", "-T", "--fork"]);
        command.args(["--monotonic", monotonic, "--boottime", boottime]);
        is_well(
            &format!("a time namespace with {monotonic} s and {boottime} s"),
            &again(&mut command, "namespace"),
        );
    }
}

#[test]
fn a_process_that_has_read_the_clock_can_fork_into_a_time_namespace() {
    brackets_for(20).unwrap();
    let outer = kernel(ClockId::MONOTONIC);
    let child = fork(|| {
        brackets_for(20)?;
        let offsets = format!("monotonic {FAR_SECONDS} 0\nboottime {FAR_SECONDS} 0\n");
        let set =
            unshare_time().and_then(|()| std::fs::write("/proc/self/timens_offsets", offsets));
        if let Err(error) = set {
            tell(&format!("not tried here: a fork into a time namespace: {error}"));
            return Ok(());
        }
        brackets_for(20)?;
        let inside = fork(|| {
            brackets()?;
            let now = Instant::now().as_nanos() as i64;
            wrong(now < FAR_SECONDS * 1_000_000_000, || format!("not in the namespace: {now}"))?;
            brackets_for(100).map(|_| ())
        });
        inside.wait()?;
        brackets_for(20)?;
        // A process may go there itself: its clock jumps, and ours follows with its next comparisons with the kernel's.
        if let Err(error) = enter_time() {
            tell(&format!("not tried here: a process that moves into a time namespace: {error}"));
            return Ok(());
        }
        wrong(kernel(ClockId::MONOTONIC) < FAR_SECONDS * 1_000_000_000, || "not there".into())?;
        while brackets().is_err() {}
        brackets_for(100).map(|_| ())
    });
    child.wait().unwrap();
    assert!(Instant::now().as_nanos() >= i128::from(outer));
    brackets().unwrap();
}

#[test]
fn the_child_of_a_fork_begins_anew_and_is_right_at_once_and_later() {
    brackets_for(20).unwrap();
    let fit = unfit().is_none();
    let children = (0..20).map(|_| {
        let before = Instant::now();
        fork(move || {
            let status = || Clock::monotonic().status().ok_or("MONOTONIC is followed");
            wrong(status()?.refreshes != 0 || status()?.fast, || {
                format!("does not begin anew: {:?}", status())
            })?;
            brackets()?;
            wrong(Instant::now() < before, || "went back across the fork".into())?;
            thread::sleep(Duration::from_millis(100));
            let rounds = brackets_for(20)?;
            // Three samples make a line; it may have ended by now if the processor was taken away.
            let lines = status()?.frequency_hz != 0;
            wrong(fit && rounds > 1_000 && !lines, || format!("{:?}", status()))?;
            wrong(Instant::now() < before, || "went back".into())
        })
    });
    for child in children.collect::<Vec<_>>() {
        child.wait().unwrap();
    }
    brackets().unwrap();
}

#[test]
fn hundreds_of_forks_while_threads_read_and_refresh() {
    const FORKS: usize = 400;
    let done = AtomicBool::new(false);
    let _refresher = Refresher::start(&CLOCKS).unwrap();
    let failed = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let _ = (Instant::now(), SystemTime::now_relaxed());
                    let _ = CLOCKS.map(|id| Clock::new(id).refresh());
                }
            });
        }
        let failed: Vec<_> = (0..FORKS)
            .filter_map(|_| {
                let seen = Instant::now();
                let child = fork(move || {
                    wrong(Instant::now() < seen, || "went back across the fork".into())?;
                    (0..20).try_for_each(|_| brackets())
                });
                child.wait().err()
            })
            .collect();
        done.store(true, Relaxed);
        failed
    });
    assert_eq!(failed, [""; 0], "of {FORKS} forks");
    say(&format!("{FORKS} forks out of a process that reads and refreshes"));
}

#[test]
fn a_ticker_and_a_refresher_are_their_processs_alone() {
    let period = Duration::from_micros(200);
    let ticker = clockwise::Ticker::start(period).unwrap();
    let refresher = Refresher::start(&CLOCKS).unwrap();
    assert!(ticker.is_running() && refresher.is_running());
    // Each moves the parent's handles into the child, in either order with the child's own.
    let mut handles = Some((ticker, refresher));
    for own_first in [false, true] {
        let child = fork(|| {
            let (ticker, refresher) = handles.take().ok_or("the handles")?;
            wrong(ticker.is_running() || refresher.is_running(), || "runs in the child".into())?;
            let before = Instant::now();
            wrong(clockwise::recent() < before, || "an old time of the parent's".into())?;
            let mut inherited = Some((ticker, refresher));
            if !own_first {
                drop(inherited.take());
            }
            let own = clockwise::Ticker::start(period).map_err(|error| error.to_string())?;
            let own_refresher = Refresher::start(&CLOCKS).map_err(|error| error.to_string())?;
            drop(inherited);
            wrong(!own.is_running() || !own_refresher.is_running(), || "is not here".into())?;
            let kept = clockwise::recent();
            while clockwise::recent() == kept {
                thread::yield_now();
            }
            brackets_for(20)?;
            drop((own, own_refresher));
            let before = Instant::now();
            wrong(clockwise::recent() < before, || "the ticker's last time is still kept".into())
        });
        child.wait().unwrap_or_else(|words| panic!("own first {own_first}: {words}"));
    }
    let (ticker, refresher) = handles.take().unwrap();
    assert!(ticker.is_running() && refresher.is_running(), "in the parent all is as it was");
    let kept = clockwise::recent();
    while clockwise::recent() == kept {
        thread::yield_now();
    }
}

/// Where the counter is forbidden the kernel answers, exactly; and nothing touches the vDSO, which would read it.
fn all_from_the_kernel(reason: Unfit) -> Result<(), String> {
    for id in CLOCKS {
        let clock = Clock::new(id);
        let before = kernel(id);
        let reading = clock.now_with_bound().map_err(|errno| errno.to_string())?;
        let times =
            [before, clock.now().unwrap_or(0), clock.now_relaxed().unwrap_or(0), kernel(id)];
        wrong(!times.is_sorted(), || format!("{clock}: {times:?}"))?;
        let exact = reading.error_ns == 0 && reading.origin == Origin::Kernel;
        wrong(!exact, || format!("{clock}: {reading:?}"))?;
        let status = clock.status().ok_or("a clock that is followed")?;
        wrong(status.unfit != Some(reason) || status.fast, || format!("{clock}: {status:?}"))?;
        let _ = clock.refresh();
    }
    for id in ClockId::ALL.into_iter().chain([-1, -2, -6, 10, 24].map(ClockId)) {
        let _ = Clock::new(id).now();
    }
    let start = Instant::now();
    let all = [Instant::now(), clockwise::recent(), Instant::now_relaxed(), Instant::now()];
    wrong(all.iter().any(|&time| time < start), || format!("{start:?}: {all:?}"))?;
    wrong(coarse::monotonic() > Instant::now(), || "coarse".into())?;
    wrong(coarse::realtime() > SystemTime::now(), || "coarse".into())?;
    let _ = (start.elapsed(), SystemTime::now_with_bound().utc(), clockwise::recent_system_time());
    Ok(())
}

const FORBIDDEN: Unfit = Unfit::NoCounter(NoCounter::Forbidden);

/// Forbids the counter; whether there is anything to try.
fn forbid() -> bool {
    match forbid_counter() {
        Ok(()) => true,
        Err(error) => {
            tell(&format!("not tried here: the counter forbidden: {error}"));
            false
        }
    }
}

fn without_the_counter() -> Result<(), String> {
    if !forbid() {
        return Ok(());
    }
    (0..100).try_for_each(|_| all_from_the_kernel(FORBIDDEN))?;
    let other = thread::spawn(|| all_from_the_kernel(FORBIDDEN));
    other.join().map_err(|_| "a panic")??;
    // Their threads wait without a clock of std's, which reads the counter.
    let ticker = clockwise::Ticker::start(Duration::from_millis(1)).map_err(|e| e.to_string())?;
    let refresher = Refresher::start(&CLOCKS).map_err(|error| error.to_string())?;
    let kept = clockwise::recent();
    while clockwise::recent() == kept {
        thread::yield_now();
    }
    drop((ticker, refresher));
    fork(|| all_from_the_kernel(FORBIDDEN)).wait()
}

fn without_the_counter_and_coarse_first() -> Result<(), String> {
    if !forbid() {
        return Ok(());
    }
    let _ = (coarse::realtime(), Clock::new(ClockId::THREAD_CPUTIME).now());
    all_from_the_kernel(FORBIDDEN)
}

#[test]
fn where_the_counter_is_forbidden_the_kernel_answers() {
    let name = "the counter forbidden";
    for child in ["forbidden", "forbidden-coarse-first"] {
        let output = again(&mut Command::new("env"), child);
        assert!(is_well(name, &output));
    }
}

fn without_sys() -> Result<(), String> {
    if std::path::Path::new("/sys/devices").exists() {
        return Err("/sys is there".into());
    }
    (0..100).try_for_each(|_| all_from_the_kernel(Unfit::Unreadable(Errno(2))))
}

#[test]
fn without_sys_the_kernel_answers() {
    let mut command = Command::new("unshare");
    command.args(["-U", "-r", "-m", "sh", "-c"]);
    command.args(["mount -t tmpfs none /sys && exec \"$0\" \"$@\""]);
    is_well("a process without /sys", &again(&mut command, "no-sys"));
}

fn without_a_vdso() -> Result<(), String> {
    let vector = std::fs::read("/proc/self/auxv").map_err(|error| error.to_string())?;
    wrong(!vector.is_empty(), || "the auxiliary vector is there".into())?;
    brackets_for(200)?;
    let status = Clock::monotonic().status().ok_or("a clock that is followed")?;
    wrong(status.refreshes == 0 && status.unfit.is_none(), || format!("{status:?}"))?;
    fork(|| brackets_for(50).map(|_| ())).wait()
}

/// What tells a process where its vDSO lies is hidden from it: the kernel is asked by real system calls.
#[test]
fn without_a_vdso_ours_is_the_kernels() {
    let mut command = Command::new("unshare");
    command.args(["-U", "-r", "-m", "sh", "-c"]);
    // The number stays the same across exec.
    command.args(["mount --bind /dev/null /proc/$$/auxv && exec \"$0\" \"$@\""]);
    is_well("a process without a vDSO", &again(&mut command, "no-vdso"));
}

/// For so long, by the clock itself.
fn read_for(time: Duration) -> Result<u64, String> {
    let start = Instant::now();
    let (mut last, mut rounds) = (start, 0);
    while last - start < time {
        let relaxed = Instant::now_relaxed();
        let bound = Instant::now_with_bound();
        let wall = SystemTime::now().max(SystemTime::now_relaxed());
        let kept = (clockwise::recent(), clockwise::recent_system_time());
        let coarse = (coarse::monotonic(), coarse::realtime());
        let wrong_clock = CLOCKS.into_iter().find(|&id| Clock::new(id).now().is_err());
        let now = Instant::now();
        if relaxed < last || now < bound.time() || wrong_clock.is_some() {
            return Err(format!("{last:?} {relaxed:?} {bound:?} {now:?} {wrong_clock:?}"));
        }
        std::hint::black_box((wall, kept, coarse));
        (last, rounds) = (now, rounds + 1);
    }
    Ok(rounds)
}

/// The kernel's answers need no system call here.
fn has_fast_kernel() -> bool {
    let reason = unfit();
    if let Some(reason) = &reason {
        not_tried("a sandbox without the clocks' system calls", reason);
    }
    reason.is_none()
}

#[test]
fn after_the_first_read_no_system_call_is_made() {
    if !has_fast_kernel() {
        return;
    }
    let allowed = [
        libc::SYS_write,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_rt_sigreturn,
        libc::SYS_futex,
    ];
    // At once after a first read of one clock, and when all of them are followed.
    for before in [0, 50] {
        let child = fork(|| {
            let first = Instant::now();
            if before > 0 {
                read_for(Duration::from_millis(before))?;
            }
            if let Err(error) = filter(&allowed, Verdict::Allow, Verdict::Kill) {
                tell(&format!("not tried here: a filter: {error}"));
                return Ok(());
            }
            let rounds = read_for(Duration::from_millis(100))?;
            wrong(rounds == 0 || Instant::now() <= first, || format!("{rounds} rounds"))
        });
        child.wait().unwrap_or_else(|words| panic!("{before} ms after the first read: {words}"));
    }
}

#[test]
fn a_worker_that_forbids_itself_system_calls_reads_for_the_first_time_behind_its_filter() {
    if !has_fast_kernel() {
        return;
    }
    let before = Instant::now();
    let allowed = [libc::SYS_write, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_rt_sigreturn];
    let child = fork(|| {
        if let Err(error) = filter(&allowed, Verdict::Allow, Verdict::Kill) {
            tell(&format!("not tried here: a filter: {error}"));
            return Ok(());
        }
        wrong(Instant::now() < before, || "went back".into())?;
        read_for(Duration::from_millis(20)).map(|_| ())
    });
    child.wait().unwrap();
}

/// All that is asked at the start, and the clocks themselves.
const ASKED: [libc::c_long; 8] = [
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_prctl,
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_madvise,
    libc::SYS_adjtimex,
];

#[test]
fn a_sandbox_that_refuses_the_clocks_later_changes_nothing() {
    if !has_fast_kernel() {
        return;
    }
    let child = fork(|| {
        brackets_for(20)?;
        if filter(&ASKED, Verdict::Errno(libc::EPERM), Verdict::Allow).is_err() {
            return Ok(());
        }
        wrong(common::ByCall.refuses(), || "the filter does not filter".into())?;
        read_for(Duration::from_millis(100))?;
        // What is no business of the counter is the kernel's, refusal and all.
        let cpu = Clock::new(ClockId::THREAD_CPUTIME).now();
        wrong(cpu != Err(Errno::PERM), || format!("{cpu:?}"))?;
        let utc = SystemTime::now_with_bound().utc();
        wrong(utc.is_some(), || format!("{utc:?}"))?;
        // The child of this one has the verdict, and asks for nothing but the vDSO, which it inherits.
        fork(|| {
            let start = Instant::now();
            let status = Clock::monotonic().status().ok_or("followed")?;
            wrong(status.unfit.is_some(), || format!("{status:?}"))?;
            wrong(Instant::now() < start, || "went back".into())?;
            read_for(Duration::from_millis(20)).map(|_| ())
        })
        .wait()
    });
    child.wait().unwrap();
}

impl common::ByCall {
    /// Whether the system call fails as the filter says.
    fn refuses(self) -> bool {
        use clockwise::Kernel;
        self.now(ClockId::MONOTONIC) != Err(Errno::PERM)
    }
}

/// Nothing can be found out: errors in words, no time of the year 1970, no crash.
fn sandboxed_before_the_first_read() -> Result<(), String> {
    if filter(&ASKED, Verdict::Errno(libc::EPERM), Verdict::Allow).is_err() {
        return Ok(());
    }
    for id in CLOCKS {
        let told = Clock::new(id).now();
        wrong(told != Err(Errno::PERM), || format!("{id:?}: {told:?}"))?;
    }
    let status = Clock::monotonic().status().ok_or("followed")?;
    wrong(status.unfit != Some(Unfit::Unreadable(Errno::PERM)), || format!("{status:?}"))?;
    let words = std::panic::catch_unwind(Instant::now).err().ok_or("a time from nowhere")?;
    let words = words.downcast::<String>().map_err(|_| "a panic without words")?;
    wrong(!words.contains("refuses CLOCK_MONOTONIC: EPERM"), || *words)
}

#[test]
fn a_sandbox_that_refuses_all_before_the_first_read_is_heard() {
    assert!(is_well("a sandbox", &again(&mut Command::new("env"), "sandboxed")));
}
