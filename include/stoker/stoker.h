/* Everything public, in one include. */
#ifndef STOKER_STOKER_H
#define STOKER_STOKER_H

#include <stoker/bench.h>
#include <stoker/error.h>
#include <stoker/g2p.h>
#include <stoker/op.h>
#include <stoker/pipeline.h>
#include <stoker/trace.h>
#include <stoker/types.h>
#include <stoker/workbench.h>

#endif
