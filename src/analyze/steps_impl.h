/* Between finding steps by markers, inferring them, and the verdict. */
#ifndef STK_ANALYZE_STEPS_IMPL_H
#define STK_ANALYZE_STEPS_IMPL_H

#include "analyze/classify.h"
#include "analyze/steps.h"

/*
 * Who wrote a step's marker, and so what its interval holds:
 * - TOLD: the user named it (--step). From one start to the next, since a fetch may lie before or behind it.
 * - PROFILER: PyTorch's ProfilerStep#N lasts from one prof.step() to the next, so the wait for the data of a step lies
 *   inside.
 * - RECORDER: ours. stk_step() lasts until the next one, with the wait inside; but a loop may also end it by
 *   stk_step_end() and wait outside. So a step starts where the trainer asked for its batch: at the first input wait
 *   since the step before.
 * - RANGE: a range of the user's that counts, "step 12" or "iteration3", of NVTX or record_function. What it holds is the
 *   user's choice: taken as it is, and a fetch of a DataLoader right before it is taken in, as for LIGHTNING.
 * - XPROF: TensorFlow's and JAX' annotations ("train", with step_num) may span the call alone. XProf takes the
 *   marker's interval as it is, and so do we, but for the verdict: see stk__steps_close_gaps.
 * - LIGHTNING: run_training_batch leaves the fetch out, which is a slice of its own before it: as RECORDER.
 * - TIMELINE: a file of TensorFlow 1, which holds one step.
 * - DEVICE: the row "Steps" of a device, which XProf takes where the host's markers do not hold the device's work.
 */
typedef enum stk__step_kind {
    STK__STEP_INFERRED,
    STK__STEP_TOLD,
    STK__STEP_PROFILER,
    STK__STEP_RECORDER,
    STK__STEP_RANGE,
    STK__STEP_XPROF,
    STK__STEP_LIGHTNING,
    STK__STEP_DEVICE,
    STK__STEP_TIMELINE,
    STK__STEP_KINDS
} stk__step_kind;

/* Adds the steps of files without markers; `out` is empty. Leaves it so when nothing is regular enough. */
stk_status stk__steps_infer(const stk__classifier *c, stk__steps *out, stk_error *err);

/* One step for each timeline of TensorFlow 1; none where no file is one. steps_timeline.c */
stk_status stk__steps_of_timelines(const stk__classifier *c, stk__steps *out, stk_error *err);

/*
 * A loop may fetch outside of its markers. Where markers of XProf's kind or ranges leave time between them, each step but the
 * first starts where the one before ends. False: out of memory.
 */
bool stk__steps_close_gaps(stk__steps *steps);

#endif
