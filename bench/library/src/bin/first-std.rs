//! The first read of a process: std::time::Instant::now.

#[path = "../first.rs"]
mod first;

fn main() {
    first::tell(std::time::Instant::now, |_| String::new());
}
