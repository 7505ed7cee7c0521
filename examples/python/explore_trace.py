# %% [markdown]
# # Where does the time of a training go?
# The cells of a notebook, for Jupyter or VS Code; or all at once: python3 explore_trace.py TRACE
#
# TRACE is what `stoker.record` wrote (train_torch.py --record run.pftrace), or any trace or profile that Stoker reads.

# %%
import pathlib
import sys

import stoker

trace = stoker.open_trace(sys.argv[1] if len(sys.argv) > 1 else "run.pftrace")

# %% [markdown]
# ## Is it the input?
# In a notebook the last line of a cell shows itself: a bar of the step time, and what to do.

# %%
diagnosis = trace.diagnose()
print(diagnosis)
diagnosis

# %% [markdown]
# ## What takes the time

# %%
print(trace.top(n=10))
print(trace.top(n=10, by="thread"))

# %% [markdown]
# ## Any other question is SQL

# %%
spans = trace.sql(
    "select name, count(*) as times, avg(dur) / 1e6 as mean_ms, max(dur) / 1e6 as most_ms"
    " from slice where name in ('forward', 'backward', 'wait for batch') group by name order by name"
)
print(spans)
for name, times, mean_ms, most_ms in spans:
    print(f"{name}: {times} times, {mean_ms:.2f} ms on average")

# %% [markdown]
# ## On with other tools
# `spans.to_pandas()`, `spans.to_polars()`, `trace.to_arrow("slice")`; and the diagnosis as a page to send around.

# %%
pathlib.Path("diagnosis.html").write_text(diagnosis._repr_html_(), encoding="utf-8")
