//! How each language reads each clock: the line of code, what it makes of the clock below it, and where its price is measured.
//!
//! Every line is compiled and run by `cli/tests/unmodified/lines.rs`. Must never hold a line for what the language cannot
//! reach: such a clock is listed as out of reach.

use super::calls::Call;
use super::clocks::{self, Grain, coarse, kept, ours, relaxed};

/// A clock by its id.
macro_rules! by_id {
    ($clock:ident, $code:expr, $import:expr, $row:literal) => {
        Call::new(clocks::$clock, $code, $import, &[$row])
    };
}

macro_rules! c {
    ($clock:ident, $id:literal, $row:literal) => {
        by_id!($clock, concat!("struct timespec t; clock_gettime(", $id, ", &t);"), TIME_H, $row)
    };
}

const TIME_H: &str = "#include <time.h>";

/// Of C.
pub const C: [Call; 13] = [
    c!(MONOTONIC, "CLOCK_MONOTONIC", "libc/monotonic"),
    c!(REALTIME, "CLOCK_REALTIME", "libc/realtime"),
    c!(MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW", "libc/monotonic_raw"),
    c!(BOOTTIME, "CLOCK_BOOTTIME", "libc/boottime"),
    c!(MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE", "libc/monotonic_coarse"),
    c!(REALTIME_COARSE, "CLOCK_REALTIME_COARSE", "libc/realtime_coarse"),
    c!(THREAD_CPUTIME, "CLOCK_THREAD_CPUTIME_ID", "libc/thread_cputime"),
    c!(PROCESS_CPUTIME, "CLOCK_PROCESS_CPUTIME_ID", "libc/process_cputime"),
    c!(BOOTTIME_ALARM, "CLOCK_BOOTTIME_ALARM", "libc/boottime_alarm"),
    c!(REALTIME_ALARM, "CLOCK_REALTIME_ALARM", "libc/realtime_alarm"),
    by_id!(
        GETTIMEOFDAY,
        "struct timeval t; gettimeofday(&t, NULL);",
        "#include <sys/time.h>",
        "libc/gettimeofday"
    ),
    by_id!(TIME, "time_t t = time(NULL);", TIME_H, "libc/time"),
    by_id!(CLOCK, "clock_t t = clock();", TIME_H, "libc/clock"),
];

/// By the libc crate, what std does not have.
macro_rules! rust {
    ($clock:ident, $id:literal, $row:literal) => {
        by_id!(
            $clock,
            concat!(
                "let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };\n\
                 unsafe { libc::clock_gettime(libc::",
                $id,
                ", &mut t) };"
            ),
            "",
            $row
        )
    };
}

const STD_OPAQUE: &str = "std::time::Instant: opaque, can only be compared with another";

/// Of Rust: std's, ours, and libc's.
pub const RUST: [Call; 24] = [
    Call::named(
        "std Instant",
        clocks::MONOTONIC.opaque(STD_OPAQUE),
        "let t = std::time::Instant::now();",
        "",
        &["std/Instant"],
    ),
    Call::named(
        "std SystemTime",
        clocks::REALTIME,
        "let t = std::time::SystemTime::now();",
        "",
        &["std/SystemTime"],
    ),
    Call::library(
        "Instant::now",
        ours(clocks::MONOTONIC),
        "let t = clockwise::Instant::now();",
        &["clockwise/Instant::now"],
    ),
    Call::library(
        "Instant::now_relaxed",
        relaxed(clocks::MONOTONIC),
        "let t = clockwise::Instant::now_relaxed();",
        &["clockwise/Instant::now_relaxed"],
    ),
    Call::library(
        "SystemTime::now",
        ours(clocks::REALTIME),
        "let t = clockwise::SystemTime::now();",
        &["clockwise/SystemTime::now"],
    ),
    Call::library(
        "SystemTime::now_relaxed",
        relaxed(clocks::REALTIME),
        "let t = clockwise::SystemTime::now_relaxed();",
        &["clockwise/SystemTime::now_relaxed"],
    ),
    Call::library(
        "coarse::monotonic",
        coarse(clocks::MONOTONIC_COARSE),
        "let t = clockwise::coarse::monotonic();",
        &["clockwise/coarse::monotonic"],
    ),
    Call::library(
        "coarse::realtime",
        coarse(clocks::REALTIME_COARSE),
        "let t = clockwise::coarse::realtime();",
        &["clockwise/coarse::realtime"],
    ),
    Call::library(
        "boottime().now",
        ours(clocks::BOOTTIME),
        "let t = clockwise::Clock::boottime().now();",
        &["clockwise/Clock::boottime"],
    ),
    Call::library(
        "boottime().now_relaxed",
        relaxed(clocks::BOOTTIME),
        "let t = clockwise::Clock::boottime().now_relaxed();",
        &["clockwise/Clock::boottime_relaxed"],
    ),
    Call::library(
        "monotonic_raw().now",
        ours(clocks::MONOTONIC_RAW),
        "let t = clockwise::Clock::monotonic_raw().now();",
        &["clockwise/Clock::monotonic_raw"],
    ),
    Call::library(
        "monotonic_raw().now_relaxed",
        relaxed(clocks::MONOTONIC_RAW),
        "let t = clockwise::Clock::monotonic_raw().now_relaxed();",
        &["clockwise/Clock::monotonic_raw_relaxed"],
    ),
    Call::library(
        "recent",
        kept(clocks::MONOTONIC),
        "let t = clockwise::recent();",
        &["clockwise/recent"],
    )
    .importing("use std::time::Duration;"),
    Call::library(
        "recent_system_time",
        kept(clocks::REALTIME),
        "let t = clockwise::recent_system_time();",
        &["clockwise/recent_system_time"],
    )
    .importing("use std::time::Duration;"),
    rust!(MONOTONIC, "CLOCK_MONOTONIC", "libc/monotonic"),
    rust!(MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW", "libc/monotonic_raw"),
    rust!(BOOTTIME, "CLOCK_BOOTTIME", "libc/boottime"),
    rust!(MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE", "libc/monotonic_coarse"),
    rust!(REALTIME_COARSE, "CLOCK_REALTIME_COARSE", "libc/realtime_coarse"),
    rust!(THREAD_CPUTIME, "CLOCK_THREAD_CPUTIME_ID", "libc/thread_cputime"),
    rust!(PROCESS_CPUTIME, "CLOCK_PROCESS_CPUTIME_ID", "libc/process_cputime"),
    rust!(REALTIME, "CLOCK_REALTIME", "libc/realtime"),
    rust!(BOOTTIME_ALARM, "CLOCK_BOOTTIME_ALARM", "libc/boottime_alarm"),
    rust!(REALTIME_ALARM, "CLOCK_REALTIME_ALARM", "libc/realtime_alarm"),
];

/// The thread that keeps what [`clocks::kept`] reads, for the program's `main`.
pub const TICKER: &str =
    "let _ticker = clockwise::Ticker::start(Duration::from_micros(PERIOD)).unwrap();";

macro_rules! python {
    ($clock:ident, $code:literal, $row:literal) => {
        by_id!($clock, concat!("t = time.", $code), "import time", $row)
    };
}

/// Of Python 3.
pub const PYTHON: [Call; 11] = [
    Call::named(
        "time.monotonic_ns",
        clocks::MONOTONIC.system_wide("Python: time.monotonic(): always system-wide (3.5)"),
        "t = time.monotonic_ns()",
        "import time",
        &["libc/monotonic"],
    ),
    python!(REALTIME, "time_ns()", "libc/realtime"),
    python!(MONOTONIC, "clock_gettime_ns(time.CLOCK_MONOTONIC)", "libc/monotonic"),
    python!(MONOTONIC_RAW, "clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)", "libc/monotonic_raw"),
    python!(BOOTTIME, "clock_gettime_ns(time.CLOCK_BOOTTIME)", "libc/boottime"),
    python!(
        MONOTONIC_COARSE,
        "clock_gettime_ns(6)  # CLOCK_MONOTONIC_COARSE",
        "libc/monotonic_coarse"
    ),
    python!(
        REALTIME_COARSE,
        "clock_gettime_ns(5)  # CLOCK_REALTIME_COARSE",
        "libc/realtime_coarse"
    ),
    python!(THREAD_CPUTIME, "thread_time_ns()", "libc/thread_cputime"),
    python!(PROCESS_CPUTIME, "process_time_ns()", "libc/process_cputime"),
    python!(BOOTTIME_ALARM, "clock_gettime_ns(9)  # CLOCK_BOOTTIME_ALARM", "libc/boottime_alarm"),
    python!(REALTIME_ALARM, "clock_gettime_ns(8)  # CLOCK_REALTIME_ALARM", "libc/realtime_alarm"),
];

/// golang.org/x/sys/unix makes system calls, whatever the vDSO has.
macro_rules! go {
    ($clock:ident, $id:literal, $row:literal) => {
        by_id!(
            $clock,
            concat!("var t unix.Timespec; unix.ClockGettime(unix.", $id, ", &t)"),
            "import \"golang.org/x/sys/unix\"",
            $row
        )
    };
}

const GO_NOW: &str = "t := time.Now()";
const GO_TIME: &str = "import \"time\"";
/// The runtime reads both clocks.
const GO_ROWS: &[&str] = &["vdso/monotonic", "vdso/realtime"];

/// Of Go.
pub const GO: [Call; 11] = [
    Call::named(
        "time.Now (Sub)",
        clocks::MONOTONIC
            .opaque("Go: package time: the monotonic reading has no meaning outside the process"),
        GO_NOW,
        GO_TIME,
        GO_ROWS,
    ),
    Call::named("time.Now (Unix)", clocks::REALTIME, GO_NOW, GO_TIME, GO_ROWS),
    go!(MONOTONIC, "CLOCK_MONOTONIC", "syscall/monotonic"),
    go!(MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW", "syscall/monotonic_raw"),
    go!(BOOTTIME, "CLOCK_BOOTTIME", "syscall/boottime"),
    go!(MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE", "syscall/monotonic_coarse"),
    go!(REALTIME_COARSE, "CLOCK_REALTIME_COARSE", "syscall/realtime_coarse"),
    go!(THREAD_CPUTIME, "CLOCK_THREAD_CPUTIME_ID", "syscall/thread_cputime"),
    go!(PROCESS_CPUTIME, "CLOCK_PROCESS_CPUTIME_ID", "syscall/process_cputime"),
    go!(BOOTTIME_ALARM, "CLOCK_BOOTTIME_ALARM", "syscall/boottime_alarm"),
    go!(REALTIME_ALARM, "CLOCK_REALTIME_ALARM", "syscall/realtime_alarm"),
];

/// Of Java.
pub const JAVA: [Call; 5] = [
    Call::named(
        "System.nanoTime",
        clocks::MONOTONIC
            .opaque("Java: System.nanoTime(): other virtual machines may have another origin"),
        "long t = System.nanoTime();",
        "",
        &["libc/monotonic"],
    ),
    Call::named(
        "java.time.Instant.now",
        clocks::REALTIME
            .cut(Grain::Microsecond, "Java: Clock.systemUTC(): whole microseconds before JDK 15"),
        "java.time.Instant t = java.time.Instant.now();",
        "",
        &["libc/realtime"],
    ),
    Call::named(
        "System.currentTimeMillis",
        clocks::REALTIME.cut(Grain::Millisecond, "Java: System.currentTimeMillis()"),
        "long t = System.currentTimeMillis();",
        "",
        &["libc/realtime"],
    ),
    Call::named(
        "getCurrentThreadCpuTime",
        clocks::THREAD_CPUTIME,
        "long t = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();",
        "import java.lang.management.ManagementFactory;",
        &["libc/thread_cputime"],
    ),
    Call::named(
        "getProcessCpuTime",
        clocks::PROCESS_CPUTIME,
        "long t = getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();",
        "import static java.lang.management.ManagementFactory.getPlatformMXBean;\n\
         import com.sun.management.OperatingSystemMXBean;",
        &["libc/process_cputime"],
    ),
];

/// Of Node.js.
pub const NODE: [Call; 4] = [
    Call::named(
        "process.hrtime.bigint",
        clocks::MONOTONIC
            .opaque("Node.js: process.hrtime(): relative to an arbitrary time in the past"),
        "const t = process.hrtime.bigint();",
        "",
        &["libc/monotonic"],
    ),
    Call::named(
        "performance.now",
        clocks::MONOTONIC.opaque("Node.js: performance.now(): since the process's own time origin"),
        "const t = performance.now();",
        "",
        &["libc/monotonic"],
    ),
    Call::named(
        "Date.now",
        clocks::REALTIME.cut(Grain::Millisecond, "ECMAScript: time values are whole milliseconds"),
        "const t = Date.now();",
        "",
        &["libc/realtime"],
    ),
    Call::named(
        "process.cpuUsage",
        clocks::PROCESS_CPUTIME
            .cut(Grain::Microsecond, "Node.js: process.cpuUsage(): microseconds"),
        "const t = process.cpuUsage();",
        "",
        &["libc/getrusage"],
    ),
];
