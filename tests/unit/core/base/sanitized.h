// DSLIDE_SANITIZED: 1 in a build with a sanitizer, which brings its own malloc and a shadow memory;
// 0 otherwise. A macro, so that a test that says nothing there is left out instead of skipped.

#pragma once

// GCC has macros for it, clang has features.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DSLIDE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DSLIDE_SANITIZED 1
#endif
#endif
#ifndef DSLIDE_SANITIZED
#define DSLIDE_SANITIZED 0
#endif
