//! The first read of a process: fastant::Instant::now.

#[path = "../first.rs"]
mod first;

fn main() {
    first::tell(fastant::Instant::now, |_| String::new());
}
