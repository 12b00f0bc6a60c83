#include "core/net/tls/certificate_jobs.h"

#include <gtest/gtest.h>

#include "core/net/tls/certificate_roles.h"

namespace dslide {
namespace {

TEST(CertificateJobsTest, AUriNamesOneJob) {
  EXPECT_EQ(JobUri("dslide", "run-1"), "dslide://dslide/trainer/job/run-1");
  EXPECT_EQ(JobOfUri(JobUri("c-1", "run-1"), "c-1"), "run-1");
  // No role by itself: to a server that does not know of jobs it is nothing.
  EXPECT_EQ(RoleOfUri(JobUri("dslide", "run-1"), "dslide"), std::nullopt);
}

TEST(CertificateJobsTest, OtherUrisBindToNothing) {
  for (const char* uri :
       {"", "dslide://dslide/trainer", "dslide://dslide/reader/job/run-1",
        "dslide://other/trainer/job/run-1", "dslide://dslide2/trainer/job/run-1",
        "dslide://dslide/trainers/job/run-1", "spiffe://dslide/trainer/job/run-1"}) {
    EXPECT_EQ(JobOfUri(uri, "dslide"), std::nullopt) << uri;
  }
}

// Whoever wrote it meant to bind: it must not be as if it were not there.
TEST(CertificateJobsTest, WhatCannotBeUnderstoodBindsToNoJob) {
  for (const char* uri :
       {"dslide://dslide/trainer/", "dslide://dslide/trainer/job", "dslide://dslide/trainer/job/",
        "dslide://dslide/trainer/run-1", "dslide://dslide/trainer/jobs/run-1",
        "dslide://dslide/trainer/Job/run-1", "dslide://dslide/trainer//job/run-1"}) {
    EXPECT_EQ(JobOfUri(uri, "dslide"), "") << uri;
  }
  EXPECT_EQ(JobOfUri("dslide://dslide/trainer/job/a/b", "dslide"), "a/b") << "no job's name";
}

}  // namespace
}  // namespace dslide
