// Kept files, for the tests that read them: a copy of each in a directory of the test's own.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/system/sealed_text.h"
#include "services/shard/state/shard_core.h"
#include "tests/golden/golden_shard.h"
#include "tests/golden/shard_text.h"
#include "tests/unit/services/shard/log/log_samples.h"

namespace dslide::golden {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Whether it is refused as what another version has written, in words that help.
// where: what the message names; reads: "format 1", "formats 1 to 3".
inline void ExpectOtherVersion(const absl::Status& status, const std::string& where,
                               int64_t version, const std::string& reads) {
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(where), HasSubstr(absl::StrCat("has format ", version, ", ")),
                    HasSubstr(absl::StrCat("this version reads ", reads, ": ")),
                    HasSubstr("use the version that wrote it")));
}

class FormatTest : public shard::LogDirectoryTest {
 protected:
  static void SetUpTestSuite() {
    // Sums of floats must have the same bits on every processor.
    setenv("DSLIDE_MAX_ISA", "sse4", /*overwrite=*/1);
  }

  // A copy of the kept directory, which the test may change; made anew by each call.
  std::string CopyOf(const std::string& kept) {
    const std::filesystem::path target = root_ / kept;
    std::filesystem::remove_all(target);
    std::filesystem::copy(InFormats(kept), target, std::filesystem::copy_options::recursive);
    return target.string();
  }
  // Whether the core has all that was in the kept directory when it was written, and nothing else.
  static void ExpectHolds(const shard::ShardCore& core, const std::string& kept) {
    const std::vector<std::string> found = absl::StrSplit(TextOf(core), '\n');
    const std::vector<std::string> expected = absl::StrSplit(Read(InFormats(kept) + ".txt"), '\n');
    for (size_t line = 0; line < std::min(found.size(), expected.size()); ++line) {
      ASSERT_EQ(found[line], expected[line]) << kept << ".txt, line " << line + 1;
    }
    EXPECT_EQ(found.size(), expected.size());
  }
  static std::string InFormats(const std::string& name) {
    return absl::StrCat(DSLIDE_SOURCE_DIR "/tests/golden/formats", "/", name);
  }

  // The content of all files, by their paths.
  static std::map<std::string, std::string> Contents(const std::string& directory) {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (entry.is_regular_file()) contents[entry.path().string()] = Read(entry.path().string());
    }
    return contents;
  }

  static std::unique_ptr<shard::ShardCore> FreshCore() {
    shard::ShardCoreOptions options;
    static_cast<shard::CoreLimits&>(options) = GoldenLimits();
    return std::make_unique<shard::ShardCore>(options);
  }

  // Puts `to` in the place of `from`, which occurs once in the sealed file, and seals it anew.
  static void PatchText(const std::string& path, const std::string& from, const std::string& to) {
    std::string text(UnsealText(Read(path)).value());
    Write(path, SealText(Patched(std::move(text), from, to)));
  }
  static void PatchBytes(const std::string& path, const std::string& from, const std::string& to) {
    const std::string bytes = Read(path);
    Write(path, SealBytes(Patched(std::string(UnsealBytes(bytes).value()), from, to)));
  }
  static std::string Patched(std::string content, const std::string& from, const std::string& to) {
    const size_t at = content.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(content.find(from, at + 1), std::string::npos) << from;
    if (at != std::string::npos) content.replace(at, from.size(), to);
    return content;
  }
};

}  // namespace dslide::golden
