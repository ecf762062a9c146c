// Java's clocks never go back in any thread, and its timed waits are not early by more than the millisecond that some
// of them count in.

import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

public class Clocks {
    static final long WAIT_MS = 50;
    static final List<String> failures = Collections.synchronizedList(new ArrayList<>());

    interface Wait {
        void run() throws Exception;
    }

    static void check(boolean holds, String words) {
        if (!holds) failures.add(words);
    }

    static void neverBack() {
        long last = System.nanoTime(), lastMillis = System.currentTimeMillis();
        Instant lastInstant = Instant.now();
        for (int i = 0; i < 300_000; i++) {
            long now = System.nanoTime();
            check(now - last >= 0, "nanoTime went back by " + (last - now) + " ns");
            last = now;
            if (i % 4 == 0) {
                long millis = System.currentTimeMillis();
                Instant instant = Instant.now();
                check(millis >= lastMillis, "currentTimeMillis went back by " + (lastMillis - millis));
                check(!instant.isBefore(lastInstant), "Instant went back to " + instant);
                lastMillis = millis;
                lastInstant = instant;
            }
        }
    }

    static void notEarly(String name, Wait wait) {
        try {
            for (int round = 0; round < 4; round++) {
                long start = System.nanoTime();
                wait.run();
                double took = (System.nanoTime() - start) / 1e6;
                check(took >= WAIT_MS - 1, name + " took " + took + " ms");
            }
        } catch (Exception problem) {
            failures.add(name + ": " + problem);
        }
    }

    static void inMonitor() throws InterruptedException {
        Object monitor = new Object();
        synchronized (monitor) {
            monitor.wait(WAIT_MS);
        }
    }

    static void onCondition() throws InterruptedException {
        ReentrantLock lock = new ReentrantLock();
        lock.lock();
        check(lock.newCondition().awaitNanos(WAIT_MS * 1_000_000) <= 0, "a condition came true");
    }

    static void orTimeout() throws InterruptedException {
        try {
            new CompletableFuture<Void>().orTimeout(WAIT_MS, TimeUnit.MILLISECONDS).get();
        } catch (ExecutionException expected) {
            return;
        }
        failures.add("orTimeout: completed");
    }

    static void together(Iterable<Runnable> works) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (Runnable work : works) threads.add(new Thread(work));
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
    }

    public static void main(String[] arguments) throws Exception {
        ScheduledExecutorService executor = Executors.newScheduledThreadPool(2);
        Map<String, Wait> waits = new LinkedHashMap<>();
        waits.put("sleep", () -> Thread.sleep(WAIT_MS));
        waits.put("wait", Clocks::inMonitor);
        waits.put("parkNanos", () -> LockSupport.parkNanos(WAIT_MS * 1_000_000));
        waits.put("parkUntil", () -> LockSupport.parkUntil(System.currentTimeMillis() + WAIT_MS));
        waits.put("schedule", () -> executor.schedule(() -> {}, WAIT_MS, TimeUnit.MILLISECONDS).get());
        waits.put("latch", () -> new CountDownLatch(1).await(WAIT_MS, TimeUnit.MILLISECONDS));
        waits.put("semaphore", () -> new Semaphore(0).tryAcquire(WAIT_MS, TimeUnit.MILLISECONDS));
        waits.put("queue", () -> new LinkedBlockingQueue<>().poll(WAIT_MS, TimeUnit.MILLISECONDS));
        waits.put("condition", Clocks::onCondition);
        waits.put("orTimeout", Clocks::orTimeout);

        together(Collections.nCopies(4, Clocks::neverBack));
        List<Runnable> works = new ArrayList<>();
        waits.forEach((name, wait) -> works.add(() -> notEarly(name, wait)));
        together(works);
        executor.shutdownNow();

        // For the judge outside: the reading and its resolution, in nanoseconds.
        System.out.println("realtime " + System.currentTimeMillis() + "000000 1000000");
        System.out.println("monotonic " + System.nanoTime() + " 1");
        failures.stream().limit(10).forEach(System.out::println);
        System.out.println(failures.isEmpty() ? "held" : "failed");
        System.exit(failures.isEmpty() ? 0 : 1);
    }
}
