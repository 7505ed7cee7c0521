/* What the files of the workbench share. */
#ifndef STKPY_WORKBENCH_H
#define STKPY_WORKBENCH_H

#include "core.h"

/* A Table that owns `table`; NULL with an exception, and the table freed. */
PyObject *stkpy_table_new(stk_table *table);
int stkpy_table_init(PyObject *module);

#endif
