"""Programs that nobody here wrote, plain and with either image preloaded, in turns.

Each measure gives what the program calls itself, and its figures by mode; it raises Missing where there is no such program,
or the image does not get into it. Must never touch a server or a file that it did not make.
"""
import glob, json, os, pathlib, re, shutil, statistics, subprocess, sys, time

MODES = ("ordered", "relaxed")


class Missing(Exception):
    """Why a program was not measured."""


def spread(values):
    """Order statistics."""
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3, "min": min(values), "max": max(values), "n": len(values)}


def turns(rounds, jobs, order):
    """What each job gives, `rounds` times, all of them in each round, in a new order each time."""
    told = {name: [] for name in jobs}
    for _ in range(rounds):
        names = list(jobs)
        order.shuffle(names)
        for name in names:
            told[name].append(jobs[name]())
    return told


def environment(image):
    """This process's, with the image preloaded."""
    return {**os.environ, "LD_PRELOAD": str(image)} if image else dict(os.environ)


def by_mode(laid):
    return {"plain": None, **laid}


def found(program, *places):
    path = shutil.which(program, path=os.pathsep.join([*places, os.environ.get("PATH", os.defpath)]))
    if not path:
        raise Missing(f"there is no {program}")
    return path


def check_loads(path, laid):
    """That each image gets into the program."""
    for image in laid.values():
        trace = {**environment(image), "LD_TRACE_LOADED_OBJECTS": "1"}
        listed = subprocess.run([path], env=trace, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if str(image) not in listed.stdout:
            raise Missing(f"{path} does not load what is preloaded")


def output(command, image):
    run = subprocess.run(command, env=environment(image), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        raise Missing(f"{command[0]} failed: {run.stderr.strip() or run.returncode}")
    return run.stdout


def version(path, *flags):
    return output([path, *(flags or ["--version"])], None).strip().splitlines()[0]


def times_plain(times):
    """The ratio of each mode's lower quartile to the plain one."""
    return {mode: times[mode]["q1"] / times["plain"]["q1"] for mode in MODES}


# PostgreSQL: what EXPLAIN ANALYZE pays for the time of each row.

POSTGRESQL = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
ROWS = 2_000_000
COUNT = "EXPLAIN (ANALYZE, TIMING {}) SELECT count(*) FROM t;"
SERVER = {
    "listen_addresses": "", "jit": "off", "max_parallel_workers_per_gather": "0", "fsync": "off", "autovacuum": "off",
    # A table of more than a quarter of it would not be kept.
    "shared_buffers": "512MB",
}


class Server:
    """A server of our own on a socket of its own, and a session with it; the client is plain."""

    def __init__(self, data, image, user):
        self.data = data
        settings = [part for name, value in SERVER.items() for part in ("-c", f"{name}={value}")]
        server = [found("postgres", *POSTGRESQL), "-D", data, *settings, "-c", f"unix_socket_directories={data}"]
        self.log = open(f"{data}.log", "ab")
        self.process = subprocess.Popen(server, env=environment(image), cwd="/", stdout=self.log, stderr=self.log, **user)
        self.session = None
        try:
            self.connect()
        except BaseException:
            self.close()
            raise

    def connect(self):
        client = [found("psql", *POSTGRESQL), "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.data, "-U", "bench", "postgres"]
        ready = [*client, "-c", "SELECT 1"]
        until = time.monotonic() + 30
        while subprocess.run(ready, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > until or self.process.poll() is not None:
                log = pathlib.Path(self.log.name).read_text().strip().splitlines()
                raise Missing(f"the server did not start: {log[-1] if log else self.process.poll()}")
            time.sleep(0.05)
        self.session = subprocess.Popen(client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, query, last="Execution Time"):
        """How long the answer takes, in ms, by this process's clock."""
        begin = time.perf_counter_ns()
        self.session.stdin.write(query + "\n")
        self.session.stdin.flush()
        for line in self.session.stdout:
            if line.startswith(last):
                return (time.perf_counter_ns() - begin) / 1e6
        raise Missing(f"the server did not answer {query}")

    def close(self):
        if self.session:
            self.session.stdin.close()
            self.session.wait()
        self.process.send_signal(2)  # SIGINT: a fast shutdown
        self.process.wait()
        self.log.close()


def postgresql(folder, laid, order):
    server, initdb = found("postgres", *POSTGRESQL), found("initdb", *POSTGRESQL)
    check_loads(server, laid)
    # It does not run as root.
    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    data = {mode: str(folder / f"postgresql-{mode}") for mode in by_mode(laid)}
    os.mkdir(data["plain"], 0o700)
    if user:
        shutil.chown(data["plain"], user["user"], user["group"])
    make = [initdb, "-D", data["plain"], "-U", "bench", "-A", "trust", "--locale=C", "--no-sync"]
    made = subprocess.run(make, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **user)
    if made.returncode:
        raise Missing(f"initdb failed: {made.stderr.strip()}")
    first = Server(data["plain"], None, user)
    try:
        first.ask(f"CREATE TABLE t AS SELECT generate_series(1, {ROWS}) AS i; VACUUM (FREEZE, ANALYZE) t; SELECT 'made';", "made")
    finally:
        first.close()
    for mode in MODES:
        subprocess.run(["cp", "-a", data["plain"], data[mode]], check=True)
    servers = {}
    try:
        for mode, image in by_mode(laid).items():
            servers[mode] = Server(data[mode], image, user)
        jobs = {
            (mode, timing): lambda one=one, timing=timing: one.ask(COUNT.format(timing))
            for mode, one in servers.items() for timing in ("OFF", "ON")
        }
        turns(2, jobs, order)  # the table gets into memory
        taken = turns(40, jobs, order)
    finally:
        for one in servers.values():
            one.close()
    ms = {f"{mode} TIMING {timing}": spread(all) for (mode, timing), all in taken.items()}
    price = {mode: ms[f"{mode} TIMING ON"]["q1"] - ms[f"{mode} TIMING OFF"]["q1"] for mode in by_mode(laid)}
    told = {
        "rows": ROWS,
        "ms": ms,
        "timing_ms": price,
        "won_back": {mode: 1 - price[mode] / price["plain"] for mode in MODES},
    }
    return version(server), told


def show_postgresql(told):
    print(f"EXPLAIN (ANALYZE) of a count over {told['rows']:,} rows, ms: the lower quartile (least-median)")
    for name, ms in told["ms"].items():
        print(f"{name:20} {ms['q1']:8.2f} ({ms['min']:.2f}-{ms['median']:.2f})")
    for mode, price in told["timing_ms"].items():
        won = f", {100 * told['won_back'][mode]:.0f} % won back" if mode in told["won_back"] else ""
        print(f"{mode}: TIMING ON adds {price:.2f} ms{won}")


# fio: five readings of the clock for each request that costs nothing.

REQUESTS = 2_000_000


def fio(folder, laid, order):
    path = found("fio")
    check_loads(path, laid)
    command = [path, "--name=null", "--ioengine=null", "--rw=read", "--bs=4k", "--size=1t", "--time_based=0",
               f"--number_ios={REQUESTS}", "--gtod_reduce=0", "--output-format=json", f"--directory={folder}"]

    def once(image, source):
        """The ns that a request takes, and those of them that the job had a processor."""
        job = json.loads(output([*command, f"--clocksource={source}"], image))["jobs"][0]
        ns = 1e9 / job["read"]["iops"]
        return ns, ns * (job["usr_cpu"] + job["sys_cpu"]) / 100

    jobs = {mode: lambda image=image: once(image, "clock_gettime") for mode, image in by_mode(laid).items()}
    jobs["its own counter"] = lambda: once(None, "cpu")
    runs = turns(9, jobs, order)
    wall, cpu = ({name: spread([one[which] for one in all]) for name, all in runs.items()} for which in (0, 1))
    return version(path), {
        "requests": REQUESTS,
        "request_ns": wall,
        "request_cpu_ns": cpu,
        "iops": {name: 1e9 / ns["q1"] for name, ns in wall.items()},
        "x_plain": times_plain(wall),
        "x_plain_cpu": times_plain(cpu),
    }


def show_fio(told):
    print("null engine, clocksource clock_gettime, ns for a request: the lower quartile (least-median)")
    for name, ns in told["request_ns"].items():
        cpu = told["request_cpu_ns"][name]
        x = f"   x plain {told['x_plain'][name]:.3f}, by CPU {told['x_plain_cpu'][name]:.3f}" if name in MODES else ""
        print(f"{name:16} {ns['q1']:7.1f} ({ns['min']:.1f}-{ns['median']:.1f})  CPU time {cpu['q1']:7.1f}"
              f"   {told['iops'][name] / 1e6:.2f} M IOPS{x}")


# pg_test_timing: what PostgreSQL itself says of its clock.


def pg_test_timing(folder, laid, order):
    path = found("pg_test_timing", *POSTGRESQL)
    check_loads(path, laid)

    def once(image):
        text = output([path, "-d", "2"], image)
        loop = float(re.search(r"(?:time|timing) including overhead: ([\d.]+) ns", text)[1])
        # `< us, % of total, count`; later versions put `<= ns` first, with a running share after it.
        unit = "ns" if re.search(r"<=? ?ns", text) else "us"
        shares = {row[1]: float(row[2]) for row in re.finditer(r"^ *(\d+) +([\d.]+) ", text, re.M)}
        return loop, {f"< {edge} {unit}": share for edge, share in shares.items()}

    told = turns(5, {mode: lambda image=image: once(image) for mode, image in by_mode(laid).items()}, order)
    loops = {mode: spread([loop for loop, _ in all]) for mode, all in told.items()}
    shares = {
        mode: {edge: statistics.median(share.get(edge, 0.0) for _, share in all) for edge in all[0][1]}
        for mode, all in told.items()
    }
    return version(path), {"loop_ns": loops, "x_plain": times_plain(loops), "share_percent": shares}


def show_pg_test_timing(told):
    print("a loop, ns: the lower quartile (least-median); share of the two first classes of its histogram, %")
    for mode, ns in told["loop_ns"].items():
        x = f"x plain {told['x_plain'][mode]:.3f}" if mode in told["x_plain"] else ""
        first = ", ".join(f"{edge} {share:.4f}" for edge, share in list(told["share_percent"][mode].items())[:2])
        print(f"{mode:8} {ns['q1']:7.2f} ({ns['min']:.2f}-{ns['median']:.2f}) {x:14} {first}")


# python3: the price of a call, which most of it is the interpreter's.

PYTHON = """
import itertools, json, statistics, time
def batch(function, calls=20000):
    begin = time.perf_counter_ns()
    for _ in itertools.repeat(None, calls):
        function()
    return (time.perf_counter_ns() - begin) / calls
clocks = {"time.time": time.time, "time.monotonic": time.monotonic}
told = {name: [] for name in clocks}
for _ in range(100):
    for name, function in clocks.items():
        told[name].append(batch(function))
print(json.dumps({name: statistics.quantiles(all, n=4)[0] for name, all in told.items()}))
"""


def python(folder, laid, order):
    path = sys.executable
    check_loads(path, laid)
    jobs = {mode: lambda image=image: json.loads(output([path, "-c", PYTHON], image)) for mode, image in by_mode(laid).items()}
    runs = turns(9, jobs, order)
    told = {}
    for name in runs["plain"][0]:
        ns = {mode: spread([one[name] for one in all]) for mode, all in runs.items()}
        told[name] = {"ns": ns, "x_plain": times_plain(ns)}
    return version(path), told


def show_python(told):
    print("a turn of a loop that calls it, ns: the lower quartile of processes (least-median), of each the lower quartile of batches")
    for name, figures in told.items():
        for mode, ns in figures["ns"].items():
            x = f"   x plain {figures['x_plain'][mode]:.3f}" if mode in figures["x_plain"] else ""
            print(f"{name:15} {mode:8} {ns['q1']:7.2f} ({ns['min']:.2f}-{ns['median']:.2f}){x}")


ALL = [
    ("postgresql", postgresql, show_postgresql),
    ("fio", fio, show_fio),
    ("pg_test_timing", pg_test_timing, show_pg_test_timing),
    ("python3", python, show_python),
]
