#include "client/cli/cluster/apt_fetch.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/cluster/child_process.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"

namespace dslide::cli {
namespace {

constexpr char kAptGet[] = "/usr/bin/apt-get";
constexpr char kKeyring[] = "/usr/share/keyrings/debian-archive-keyring.gpg";
// Longer than 60 MB take on a slow line.
constexpr absl::Duration kPatience = absl::Minutes(60);

absl::Status CheckReleaseName(const std::string& release) {
  for (const char c : release) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-') continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--fetch ", release, ": expected the name of a Debian release, as trixie"));
  }
  return absl::OkStatus();
}

absl::Status WriteSources(const std::string& path, const std::string& release) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(out.Append(absl::StrCat("deb [signed-by=", kKeyring,
                                          "] http://deb.debian.org/debian ", release, " main\n")));
  return out.Commit();
}

}  // namespace

absl::Status FetchAptLists(const AptFetch& fetch) {
  RETURN_IF_ERROR(CheckReleaseName(fetch.release));
  if (access(kAptGet, X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("--fetch: this machine has no ", kAptGet, ": copy the lists of one that has"));
  }
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(fetch.lists_dir, error);
  if (!path.has_filename()) path = path.parent_path();  // "lists/"
  const std::string folder = path.string();
  if (!error) std::filesystem::create_directories(path, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the directory ", fetch.lists_dir, ": ", error.message()));
  }
  std::vector<std::string> args = {"update", "-q"};
  const auto set = [&](const std::string& setting) {
    args.push_back("-o");
    args.push_back(setting);
  };
  set(absl::StrCat("Dir::State::lists=", folder));
  set("Dir::Cache::pkgcache=");  // no cache: the system's could not be written
  set("Dir::Cache::srcpkgcache=");
  if (fetch.contents) {
    const std::string target = "Acquire::IndexTargets::deb::Contents-deb::";
    set(target + "MetaKey=$(COMPONENT)/Contents-$(ARCHITECTURE)");
    set(target + "ShortDescription=Contents-$(ARCHITECTURE)");
    set(target + "Description=$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Contents");
    set(target + "DefaultEnabled=true");
  }
  if (!fetch.release.empty()) {
    const std::string sources = folder + ".sources.list";
    RETURN_IF_ERROR(WriteSources(sources, fetch.release));
    set(absl::StrCat("Dir::Etc::sourcelist=", sources));
    set("Dir::Etc::sourceparts=-");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> apt,
                   ChildProcess::Start("apt-get update", kAptGet, args, folder + ".log"));
  apt->WaitForEnd(kPatience);
  if (apt->exit_code() == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("--fetch: ", apt->Obituary()));
}

}  // namespace dslide::cli
