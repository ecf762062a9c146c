//! x
use clockwise::Instant;
use clockwise_core::{counter::*, kernel::*};
#[inline(never)]
fn lp(best: &mut f64, f: impl Fn() -> u64) {
    let t0 = std::time::Instant::now();
    let mut x = 0u64;
    for _ in 0..5000 {
        x = x.wrapping_add(f());
    }
    std::hint::black_box(x);
    let e = t0.elapsed().as_nanos() as f64 / 5000.0;
    if e < *best {
        *best = e
    }
}
fn main() {
    println!("{:?} {:?}", Instant::now(), Instant::status());
    let t = std::time::Instant::now();
    let mut n = 0;
    while t.elapsed().as_millis() < 2000 {
        Instant::now();
        n += 1;
    }
    println!("{n} {:?} {:?}", Instant::now(), Instant::status());
    println!("{:?}", Instant::reading());
    let k = Linux::find();
    let mut ds = vec![];
    let t = std::time::Instant::now();
    while t.elapsed().as_millis() < 5000 {
        let a = k.now(ClockId::MONOTONIC).unwrap().nanos();
        let o = Instant::now().as_nanos();
        let b = k.now(ClockId::MONOTONIC).unwrap().nanos();
        if b - a < 120 {
            ds.push((o * 2 - a - b) / 2);
        }
    }
    ds.sort();
    let q = |p: f64| ds[((ds.len() - 1) as f64 * p) as usize];
    println!(
        "n {} min {} p1 {} p50 {} p99 {} max {}",
        ds.len(),
        q(0.0),
        q(0.01),
        q(0.5),
        q(0.99),
        q(1.0)
    );
    println!("{:?}", Instant::status());
    let c = SharedHardware;
    let mut b = [1e9; 6];
    for _ in 0..3000 {
        lp(&mut b[0], || c.ticks_unordered().0);
        lp(&mut b[1], || c.ticks().0);
        lp(&mut b[2], || Instant::now_relaxed().as_nanos() as u64);
        lp(&mut b[3], || Instant::now().as_nanos() as u64);
        lp(&mut b[4], || unsafe { std::mem::transmute_copy::<_, u64>(&std::time::Instant::now()) });
        lp(&mut b[5], || {
            let (l, h): (u64, u64);
            unsafe {
                std::arch::asm!("rdtscp",out("rax")l,out("rdx")h,out("rcx")_,options(nostack))
            };
            h << 32 | l
        });
    }
    println!("{b:.2?} relaxed {:.3} ordered {:.3}", b[2] / b[0], b[3] / b[1].min(b[5]));
}
