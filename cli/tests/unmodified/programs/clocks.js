// Node's clocks never go back, and its timers are not early by more than the millisecond that it counts in.
"use strict";
const WAIT_MS = 50;
const failures = [];
const check = (holds, words) => holds || failures.push(words);

function neverBack(name, read) {
  let last = read();
  for (let i = 0; i < 200000; i++) {
    const now = read();
    check(now >= last, `${name} went back from ${last} to ${now}`);
    last = now;
  }
}

neverBack("hrtime", () => process.hrtime.bigint());
neverBack("performance.now", () => performance.now());
neverBack("Date.now", () => Date.now());

const elapsedMs = (start) => Number(process.hrtime.bigint() - start) / 1e6;

function timer(name, wait) {
  const start = process.hrtime.bigint();
  return wait().then(() => check(elapsedMs(start) >= WAIT_MS - 1, `${name} took ${elapsedMs(start)} ms`));
}

function sleeping() {
  const start = process.hrtime.bigint();
  const how = Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAIT_MS);
  check(how === "timed-out" && elapsedMs(start) >= WAIT_MS - 1, `Atomics.wait: ${how} after ${elapsedMs(start)} ms`);
}

const after = (ms) => new Promise((done) => setTimeout(done, ms));
const repeated = () => new Promise((done) => {
  const interval = setInterval(() => { clearInterval(interval); done(); }, WAIT_MS);
});

async function main() {
  for (let round = 0; round < 3; round++) {
    await Promise.all([
      timer("setTimeout", () => after(WAIT_MS)),
      timer("setInterval", repeated),
      timer("timers/promises", () => require("timers/promises").setTimeout(WAIT_MS)),
    ]);
    sleeping();
  }
  // For the judge outside: the reading and its resolution, in nanoseconds.
  console.log(`realtime ${BigInt(Date.now()) * 1000000n} 1000000`);
  console.log(`monotonic ${process.hrtime.bigint()} 1`);
  failures.slice(0, 10).forEach((words) => console.log(words));
  console.log(failures.length ? "failed" : "held");
  process.exitCode = failures.length ? 1 : 0;
}
main();
