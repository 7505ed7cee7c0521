"""The cases of tests/data/verdicts: which loop, how it is called, and what can be known from its profile.

`visible`: the profile shows the fetch by a mark or an op that everybody knows. `stage`: a regular expression for names
of what is slow, where the profile holds such a name and there is something to blame.
"""

HIGH, HALF, MODERATE, LOW = "0.65", "0.5", "0.11", "0.01"
SPANS = ("data_loading", "fetch", "load", "batch", "input", "prepare_inputs", "dataset", "loader.next", "Data fetch",
         "next_batch")
BOUND, SOME, NOT = "highly_input_bound", "moderately_input_bound", "not_input_bound"


def case(name, loop, options, verdict, visible, stage, text, **more):
    options = options.split("|") if "|" in options else options.split()
    if "--stack" in options:  # every call of a function is in the file
        options += ["--steps", "4" if "checkpoint" in options else "6"]
    return dict(more, name=name, loop=loop, options=options, verdict=verdict, visible=visible, stage=stage, text=text)


def torch_loader():
    """DataLoader, whose wait PyTorch's profiler marks by itself."""
    slept, asleep = "samples are slept for", r"decode|__getitem__|sleep"
    shares = (("bound", HIGH, BOUND), ("half", HALF, BOUND), ("moderate", MODERATE, SOME), ("compute", LOW, NOT))
    for workers in (0, 2):
        if workers:
            # A batch that is ready has to be handed over; a longer step makes that small, on a busy machine as well.
            shares = shares[:3] + (("compute", LOW + " --batch 192", NOT),)
        where = "in the training process" if workers == 0 else "in 2 worker processes"
        for word, share, verdict in shares:
            yield case("loader_w%d_%s" % (workers, word), "loader", "--workers %d --share %s" % (workers, share),
                       verdict, True, None, "DataLoader, %s %s." % (slept, where))
        for word, share, verdict in (shares[0], shares[2], shares[3]):
            # What other processes do is not in the profile; a little wait has nothing to blame.
            stage = asleep if workers == 0 and verdict != NOT else None
            yield case("loader_w%d_%s_stack" % (workers, word), "loader",
                       "--workers %d --share %s --stack" % (workers, share), verdict, True, stage,
                       "DataLoader, %s %s; with_stack." % (slept, where))
            # Two workers deliver in pairs, so no two steps are alike: too much to ask of who has to guess the steps.
            few = min(workers, 1)
            yield case("loader_w%d_%s_unmarked" % (few, word), "loader",
                       "--workers %d --share %s --no-marks" % (few, share), verdict, True, None,
                       "DataLoader, %s %s; no prof.step()." % (slept, "in a worker process" if few else where))
        for word, share, verdict in (shares[0], shares[3]):
            yield case("loader_w%d_%s_evaluation" % (workers, word), "loader",
                       "--workers %d --share %s --evaluate" % (workers, share), verdict, True, None,
                       "DataLoader, %s %s; every third step evaluates two batches." % (slept, where))
    yield case("loader_w0_busy", "loader", "--busy --share " + HIGH, BOUND, True, r"aten::(sort|rand|uniform_)",
               "DataLoader, samples are computed with PyTorch in the training process.")
    yield case("loader_w0_busy_stack", "loader", "--busy --stack --share " + HIGH, BOUND, True,
               r"aten::(sort|rand|uniform_)|decode|__getitem__|sort\b",
               "DataLoader, samples are computed with PyTorch in the training process; with_stack.")


def torch_spans():
    for span in SPANS:
        word = span.lower().replace(" ", "_").replace(".", "_")
        for kind, share, verdict in (("bound", HIGH, BOUND), ("compute", "0.015", NOT)):
            yield case("span_%s_%s" % (word, kind), "generator", "--steps|8|--share|%s|--span|%s" % (share, span), verdict, True,
                       None, 'A generator of one\'s own that sleeps, record_function("%s") around next().' % span)
    yield case("span_fetch_moderate", "generator", "--span fetch --share " + MODERATE, SOME, True, None,
               'A generator of one\'s own that sleeps, record_function("fetch") around next().')


def torch_own():
    """Loaders of one's own. Without stacks nothing shows them but the time that nothing else takes."""
    for kind, share, verdict in (("bound", HIGH, BOUND), ("compute", LOW, NOT)):
        bound = verdict != NOT
        for stack in (False, True):
            end, more, said = ("_stack", " --stack", "; with_stack") if stack else ("", "", "")
            yield case("generator_%s%s" % (kind, end), "generator", "--share %s%s" % (share, more), verdict, False,
                       r"make_batches|sleep" if bound and stack else None,
                       "A generator of one's own that sleeps%s." % said)
            yield case("prefetch_%s%s" % (kind, end), "prefetch", "--share %s%s" % (share, more), verdict, False,
                       r"queue\.py.*\bget\b|\bfill\b|acquire|\bwait\b" if bound and stack else None,
                       "A thread sleeps and fills a queue, the loop takes from it%s." % said)
            yield case("memmap_%s%s" % (kind, end), "memmap", "--share %s%s" % (share, more), verdict, False,
                       r"get_batch|sleep" if bound and stack else None,
                       "get_batch() from a memory map, as in nanoGPT, with a sleep in it%s." % said)
            yield case("memmap_packed_%s%s" % (kind, end), "memmap", "--packed --share %s%s" % (share, more), verdict,
                       False, r"get_batch|decompress" if bound and stack else None,
                       "get_batch() from a memory map, as in nanoGPT, which decompresses%s." % said)
    yield case("generator_bound_unmarked", "generator", "--no-marks --share " + HIGH, BOUND, False, None,
               "A generator of one's own that sleeps; no prof.step().")
    yield case("generator_bound_unmarked_stack", "generator", "--no-marks --stack --share " + HIGH, BOUND, False,
               r"make_batches|sleep", "A generator of one's own that sleeps; with_stack, no prof.step().")
    yield case("files_bound_stack", "files", "--stack --share " + HIGH, BOUND, False, r"step_a|unpack|decompress",
               "step_a() reads files and decompresses them; with_stack.")
    yield case("files_compute_stack", "files", "--stack --share 0.002", NOT, False, None,
               "step_a() reads a small file and decompresses it; with_stack.")


def torch_traps():
    """Time on the host that is not input."""
    for kind, what in (("metrics", "rank statistics in NumPy, in step_b()"), ("log", "a log"),
                       ("checkpoint", "torch.save of everything")):
        yield case("trap_%s_stack" % kind, "side_work", "--share 0 --stack --kind " + kind, NOT, False, None,
                   "Data lies in memory; most of each step is %s; with_stack." % what)
        yield case("trap_%s" % kind, "side_work", "--share 0 --kind " + kind, NOT, False, None,
                   "Data lies in memory; most of each step is %s." % what)
        yield case("trap_%s_loader_stack" % kind, "side_work", "--share 0 --stack --loader --kind " + kind, NOT, True,
                   None, "DataLoader over tensors; most of each step is %s; with_stack." % what)


def torch_ranks():
    yield case("ranks_one_slow", "ranks", "--share 0.75", BOUND, True, None,
               "Two ranks with DistributedDataParallel over gloo; the input of rank 1 is slow.", ranks=2, worst_rank=1)
    yield case("ranks_fast", "ranks", "--share 0", NOT, True, None,
               "Two ranks with DistributedDataParallel over gloo; the input of both keeps up.", ranks=2)


def tensorflow():
    def one(name, options, verdict, stage, text):
        return case("tf_" + name, "tfdata", options, verdict, True, stage, text)
    fused = r"MapAndBatch"  # what tf.data makes of map() and batch(); a cheap map() stands before it
    yield one("slow_map", "--pipeline slow_map --share 0.75", BOUND, fused,
              "map() of a py_function that sleeps, then batch().")
    yield one("slow_map_moderate", "--pipeline slow_map --share 0.49", SOME, fused,
              "map() of a py_function that sleeps, a little longer than a step.")
    yield one("slow_map_unmarked", "--pipeline slow_map --share 0.75 --no-marks", BOUND, fused,
              "map() of a py_function that sleeps, then batch(); no step marks.")
    yield one("slow_map_python", "--pipeline slow_map --share 0.75 --python", BOUND, fused,
              "map() of a py_function that sleeps, then batch(); with the Python tracer.")
    yield one("parallel_map", "--pipeline parallel_map --share " + HIGH, BOUND, fused,
              "Parallel map() of a py_function that sleeps, batch(), prefetch().")
    yield one("heavy_map", "--pipeline heavy_map --share 0.75", BOUND, fused,
              "map() that multiplies matrices in TensorFlow.")
    yield one("slow_read", "--pipeline slow_read --share 0.7", BOUND, r"TFRecord", "Large TFRecords under gzip.")
    yield one("generator", "--pipeline from_generator --share 0.75", BOUND, r"Generator",
              "from_generator() over a generator that sleeps.")
    yield one("interleave", "--pipeline interleave --share 0.75", BOUND, r"Generator",
              "interleave() of generators that sleep.")
    yield one("shuffle", "--pipeline shuffle --share 0.75", BOUND, r"Generator",
              "shuffle() whose buffer is filled anew all the time from a generator that sleeps.")
    yield one("slow_batch", "--pipeline slow_batch --rounds 1 --share 0.8", BOUND, r"^BatchV2",
              "batch() of very large tensors.")
    yield one("ahead", "--pipeline ahead --share 0", NOT, None,
              "prefetch() that keeps up: its thread is busy for most of a step, the loop never waits.")
    yield one("ahead_unmarked", "--pipeline ahead --share 0 --no-marks", NOT, None,
              "prefetch() that keeps up: its thread is busy for most of a step, the loop never waits; no step marks.")
    yield one("parallel_ahead", "--pipeline parallel_map --share 0", NOT, None,
              "Parallel map() and prefetch() that keep up.")
    yield case("keras_fit_bound", "keras_fit", "--share 0.75", BOUND, True, fused,
               "model.fit() with step marks as Keras' TensorBoard callback sets them; map() of a sleeping py_function.")
    yield case("keras_fit_compute", "keras_fit", "--share 0.1", NOT, True, None,
               "model.fit() with step marks, as Keras' TensorBoard callback sets them; input keeps up.")


def jax():
    for kind, share, verdict in (("bound", HIGH, BOUND), ("compute", LOW, NOT)):
        stage = r"load_batch|sleep" if verdict != NOT else None
        generator = r"load_batch|batches|sleep" if verdict != NOT else None
        yield case("jax_%s" % kind, "jax_loop", "--share " + share, verdict, False, stage,
                   "load_batch() in the loop, which sleeps; Python tracer, no marks.")
        yield case("jax_%s_steps" % kind, "jax_loop", "--marks --share " + share, verdict, False, stage,
                   "load_batch() in the loop, which sleeps; StepTraceAnnotation.")
        yield case("jax_%s_span" % kind, "jax_loop", "--marks --span load_data --share " + share, verdict, True, stage,
                   'load_batch() in the loop, which sleeps; StepTraceAnnotation, TraceAnnotation("load_data").')
        yield case("jax_%s_span_unmarked" % kind, "jax_loop", "--span load_data --share " + share, verdict, True, stage,
                   'load_batch() in the loop, which sleeps; TraceAnnotation("load_data"), no step marks.')
        yield case("jax_%s_generator" % kind, "jax_loop", "--marks --generator --share " + share, verdict, False,
                   generator, "A generator that sleeps and calls jax.device_put; StepTraceAnnotation.")


def spy():
    """py-spy looks on from outside: it shows functions, no marks, and leaves out threads that sleep."""
    yield case("loader_w2_spy", "loader", "--workers 2 --busy --share " + HIGH, BOUND, True, r"decode|__getitem__",
               "DataLoader, samples are computed in 2 worker processes; PyTorch's profiler, and py-spy --subprocesses.",
               spy="beside")
    for kind, share, verdict in (("bound", HIGH, BOUND), ("compute", LOW, NOT)):
        bound = verdict != NOT
        yield case("spy_memmap_%s" % kind, "memmap", "--packed --share " + share, verdict, False,
                   r"get_batch" if bound else None, "get_batch() that decompresses; py-spy alone.", spy="alone")
        yield case("spy_tf_%s" % kind, "tfdata",
                   "--pipeline from_generator --busy --share " + ("0.75 --rounds 1" if bound else "0.1"), verdict,
                   False, r"rows|wait|generator" if bound else None,
                   "from_generator() that decompresses; py-spy alone.", spy="alone")
        yield case("spy_jax_%s" % kind, "jax_loop", "--busy --share " + share, verdict, False,
                   r"load_batch" if bound else None, "load_batch() that decompresses; py-spy alone.", spy="alone")


GROUPS = {torch_loader: "PyTorch, DataLoader", torch_spans: "PyTorch, own spans", torch_own: "PyTorch, own loaders",
          torch_traps: "PyTorch, other work on the host", torch_ranks: "PyTorch, two ranks",
          tensorflow: "TensorFlow, Keras", jax: "JAX", spy: "py-spy"}


def all_cases():
    return [dict(c, group=group) for make, group in GROUPS.items() for c in make()]
