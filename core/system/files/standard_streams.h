// The three streams that a process is born with, and what becomes of its results on them.

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// Before any file is opened: a stream that was closed by the parent is given a descriptor that
// refuses to be used, so that no file gets its number and what is printed does not end up there. A
// reader that goes away (dslide ... | head), and a limit on the size of files, are failed writes
// afterwards, not the end of the process.
void PrepareStandardStreams();

// Results, to stdout, flushed. The first failure stays: nothing is written after it.
// Thread safety: one thread at a time, as of the functions below.
void WriteResult(absl::string_view text);

// OK, or why results were lost: Aborted when the reader has gone, which is no reason to complain;
// else the system's reason. Long commands ask now and then.
absl::Status ResultStatus();

// Ends the output: some file systems say only when a file is closed that the disk is full. Returns
// ResultStatus().
absl::Status CloseResults();

// For the end of a program: CloseResults(), and the exit code. A failure to write makes a code of
// success 1, or `disk_full` where the disk is full, and is said on stderr; a reader that has gone
// makes it that of SIGPIPE, quietly.
int ExitWithResults(absl::string_view program, int exit_code, int disk_full);

}  // namespace dslide
