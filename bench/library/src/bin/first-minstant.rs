//! The first read of a process: minstant::Instant::now.

#[path = "../first.rs"]
mod first;

fn main() {
    first::tell(minstant::Instant::now, |_| String::new());
}
