//! The first read of a process: quanta::Instant::now.

#[path = "../first.rs"]
mod first;

fn main() {
    first::tell(quanta::Instant::now, |_| String::new());
}
