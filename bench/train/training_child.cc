#include "bench/train/training_child.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/cli/cluster/child_process.h"
#include "core/base/status_macros.h"

namespace dslide::bench {
namespace {

using Json = nlohmann::ordered_json;

// A directory that goes with this object.
class TemporaryDirectory {
 public:
  static absl::StatusOr<TemporaryDirectory> Create() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dslide-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return absl::InternalError(absl::StrCat(pattern, ": cannot be made; is TMPDIR writable?"));
    }
    return TemporaryDirectory(std::move(pattern));
  }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace

absl::StatusOr<Json> LastJsonLine(const std::string& output) {
  const std::vector<std::string> lines = absl::StrSplit(output, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (!absl::StartsWith(*line, "{")) continue;
    Json json = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) return json;
  }
  constexpr size_t kShown = 500;
  const size_t from = output.size() > kShown ? output.size() - kShown : 0;
  return absl::InternalError(
      absl::StrCat("no line of the output is a JSON object; it ends with:\n", output.substr(from)));
}

absl::StatusOr<Json> RunTraining(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const TemporaryDirectory directory, TemporaryDirectory::Create());
  const std::string log = directory.path() + "/output";
  std::vector<std::string> words = {"train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"-q", "-o", "json"});
  ASSIGN_OR_RETURN(
      const std::unique_ptr<cli::ChildProcess> child,
      cli::ChildProcess::Start("dslide train", cli::ProgramDirectory() + "/dslide", words, log));
  child->WaitForEnd(absl::InfiniteDuration());
  if (child->exit_code() != 0) return absl::InternalError(child->Obituary());
  std::ifstream file(log);
  std::ostringstream output;
  output << file.rdbuf();
  return LastJsonLine(output.str());
}

}  // namespace dslide::bench
