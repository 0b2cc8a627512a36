"""`python -m polyloop.testing.sim --seeds N`: run seeds, print what was met, and one line that replays the first breach."""
from .world import World, MODES
import sys, os, time
n=int(sys.argv[1]); mode=sys.argv[2] if len(sys.argv)>2 else "all"
from collections import Counter
c=Counter(); e=Counter(); bad=0
t=os.times()
s0=int(sys.argv[3]) if len(sys.argv)>3 else 0
seen=Counter()
for seed in range(s0,s0+n):
    m=MODES[seed%3] if mode=="all" else mode
    w=World(seed,m).run()
    c+=w.counts; e+=w.judge.ends
    if w.failure:
        bad+=1
        key=(w.failure.invariant, w.failure.what[:60])
        seen[key]+=1
        if seen[key]<=2: print(w.failure)
t2=os.times()
print(bad, "bad", n/(t2.user-t.user)*60, "seeds/min")
print(seen.most_common(30))
if "-v" in sys.argv:
    print(c.most_common()); print(e.most_common())
