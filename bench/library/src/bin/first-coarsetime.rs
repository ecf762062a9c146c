//! The first read of a process: coarsetime::Instant::now.

#[path = "../first.rs"]
mod first;

fn main() {
    first::tell(coarsetime::Instant::now, |_| String::new());
}
