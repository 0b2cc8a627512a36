"""The work W(n, s): an agent run of n steps with a scripted, zero-latency model.

Step i = one model call (reply about 1 KB of JSON) + one tool call (observation of s bytes).
After n steps the model gives the final result. Both sides log each *completed* call to an
append-only side file (unsynced), so a later process can count repeated calls after a kill -9.
"""
import json, os, random, resource, signal, sys, time, ctypes

_R = random.Random(7)
_WORDS = ["".join(_R.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(_R.randint(3, 9))) for _ in range(4000)]


def prose(seed, size):
    r, out, k = random.Random(seed), [], 0
    while k <= size:
        w = r.choice(_WORDS); out.append(w); k += len(w) + 1
    return " ".join(out)[:size]


class Script:
    def __init__(self, n, s):
        self.n, self.s = n, s
        self._p = [prose(1000 + j, 440) for j in range(16)]
        self._o = [prose(9000 + j, s) for j in range(8)]

    def reply(self, i):
        return json.dumps({"reflection": self._p[i % 16], "plan": self._p[(i + 5) % 16],
                           "action": {"tool": "observe", "args": {"i": i, "token": f"t{i:06d}"}}})

    def obs(self, i):
        h = f"#{i:06d} "
        return h + self._o[i % 8][len(h):]

    def payload(self):
        return len(self.reply(0)) + self.s


class Budget(Exception):
    pass


class Meter:
    def __init__(self, script, dir, die=False, budget=0.0):
        self.sc, self.die = script, die
        self.stamps = {}
        self.fd = os.open(os.path.join(dir, "calls.log"), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        self.budget, self.t0, self.on_budget = budget, None, None
        self.first_call = None

    def model(self, i, run="r0"):
        """Model call i of the run; returns (text, is_final)."""
        t = time.perf_counter()
        if self.first_call is None:
            self.first_call = t
        self.stamps.setdefault(run, []).append(t)
        if self.budget and t - self.t0 > self.budget and self.on_budget:
            self.on_budget(i)
        if i >= self.sc.n:
            if self.die:
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(self.fd, f"{run} F\n".encode())
            return "final result", True
        r = self.sc.reply(i)
        os.write(self.fd, f"{run} m{i}\n".encode())
        return r, False

    def tool(self, i, run="r0"):
        o = self.sc.obs(i)
        os.write(self.fd, f"{run} t{i}\n".encode())
        return o


def repeats(dir, finals=False):
    seen, rep = set(), 0
    for line in open(os.path.join(dir, "calls.log")):
        if line in seen:
            rep += 1
        seen.add(line)
    return rep, len(seen)


def pct(xs, q):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(q * len(xs)))] if xs else None


def io_self(pid="self"):
    d = {}
    for l in open(f"/proc/{pid}/io"):
        k, v = l.split(":"); d[k] = int(v)
    return d


def rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_s():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


def fsyncs():
    try:
        f = ctypes.CDLL(None).fsyncshim_count; f.restype = ctypes.c_long
        return f()
    except AttributeError:
        return None


def du(path, skip=("calls.log", "sync.cal")):
    t = 0
    for b, _, fs in os.walk(path):
        for f in fs:
            if f not in skip:
                try: t += os.stat(os.path.join(b, f)).st_size
                except OSError: pass
    return t


def sync_cal(dir, k=40):
    """Median seconds of a 1 KB append + fdatasync right now: the disk yardstick for this very moment."""
    p = os.path.join(dir, "sync.cal")
    fd = os.open(p, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ts, b = [], b"x" * 1024
    for _ in range(k):
        t = time.perf_counter(); os.write(fd, b); os.fdatasync(fd); ts.append(time.perf_counter() - t)
    os.close(fd); os.unlink(p)
    return sorted(ts)[k // 2]
