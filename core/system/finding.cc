#include "core/system/finding.h"

#include <algorithm>
#include <iterator>

namespace dslide {

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "ok";
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "unknown";
}

void Findings::Ok(std::string where, std::string what) {
  all_.push_back({Severity::kOk, std::move(where), std::move(what), "", absl::StatusCode::kOk});
}

void Findings::Note(std::string where, std::string what, std::string remedy) {
  all_.push_back({Severity::kNote, std::move(where), std::move(what), std::move(remedy),
                  absl::StatusCode::kOk});
}

void Findings::Warn(std::string where, std::string what, std::string remedy) {
  all_.push_back({Severity::kWarning, std::move(where), std::move(what), std::move(remedy),
                  absl::StatusCode::kOk});
}

void Findings::Error(std::string where, const absl::Status& error, std::string remedy) {
  all_.push_back({Severity::kError, std::move(where), std::string(error.message()),
                  std::move(remedy), error.code()});
}

void Findings::Append(Findings other) {
  all_.insert(all_.end(), std::make_move_iterator(other.all_.begin()),
              std::make_move_iterator(other.all_.end()));
}

Severity Findings::worst() const {
  Severity worst = Severity::kOk;
  for (const Finding& finding : all_) worst = std::max(worst, finding.severity);
  return worst;
}

}  // namespace dslide
