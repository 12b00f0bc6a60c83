// Command logs in a directory of the test's own, for tests of the log.

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/shard/log/command_log.h"
#include "services/shard/log/log_scan.h"

namespace dslide::shard {

class LogDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  // After the members of the tests, whose threads write to the directory.
  ~LogDirectoryTest() override { std::filesystem::remove_all(root_); }

  std::string Path(const std::string& name) const { return (root_ / name).string(); }

  // A log that holds the payloads as records 1, 2, ... of kind 1, all durable, and is closed.
  void MakeLog(const std::string& name, const std::vector<std::string>& payloads) {
    std::filesystem::create_directories(Path(name));
    ASSERT_TRUE(CommandLog::Create(Path(name), {}).ok());
    auto log = CommandLog::Open(Path(name), {});
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Start({});
    for (const std::string& payload : payloads) ASSERT_TRUE(Append(**log, payload).ok());
    ASSERT_TRUE((*log)->Sync().ok());
  }
  static absl::StatusOr<uint64_t> Append(CommandLog& log, const std::string& payload) {
    const absl::string_view piece = payload;
    return log.Append(1, absl::MakeConstSpan(&piece, 1));
  }

  // The payloads of a log, as a scan that changes nothing finds them.
  absl::StatusOr<std::vector<std::string>> Payloads(const std::string& name, bool* torn = nullptr) {
    std::vector<std::string> payloads;
    const auto scan = ScanLog(Path(name), {}, [&](const LogRecord& record) {
      payloads.emplace_back(record.payload);
      return absl::OkStatus();
    });
    if (!scan.ok()) return scan.status();
    if (torn != nullptr) *torn = scan->torn;
    return payloads;
  }

  void Copy(const std::string& from, const std::string& to) {
    std::filesystem::remove_all(Path(to));
    std::filesystem::copy(Path(from), Path(to), std::filesystem::copy_options::recursive);
  }
  // The one write-ahead log that holds records.
  std::string WalOf(const std::string& name) {
    std::string largest;
    for (const auto& entry : std::filesystem::directory_iterator(RecordsPath(Path(name)))) {
      if (entry.path().extension() != ".log") continue;
      if (largest.empty() || entry.file_size() > std::filesystem::file_size(largest)) {
        largest = entry.path().string();
      }
    }
    return largest;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  const std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) /
      absl::StrCat(
          "dslide_log_", getpid(), "_",
          // Its number, where it has a parameter, is no folder of its own.
          absl::StrReplaceAll(::testing::UnitTest::GetInstance()->current_test_info()->name(),
                              {{"/", "_"}}));
};

}  // namespace dslide::shard
