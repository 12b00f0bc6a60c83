#include "client/objects/object_source.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
constexpr absl::Duration kStopCheck = absl::Milliseconds(100);
// Fewer are no progress: a store that drips is given up like one that says nothing.
constexpr int64_t kProgressBytes = 64 << 10;

int64_t NumberOr(absl::string_view text, int64_t otherwise) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? number
                                                                                 : otherwise;
}

// What an answer 200 or 206 is a part of.
ObjectVersion VersionOf(const TransferAnswer& answer) {
  ObjectVersion version{.etag = std::string(answer.header("etag")),
                        .last_modified = std::string(answer.header("last-modified"))};
  const absl::string_view range = answer.header("content-range");  // "bytes 5-9/10"
  version.size = answer.code == 206
                     ? NumberOr(range.substr(std::min(range.rfind('/') + 1, range.size())), -1)
                     : NumberOr(answer.header("content-length"), -1);
  return version;
}

// Where its first byte belongs; -1 when it does not say.
int64_t OffsetOf(const TransferAnswer& answer) {
  if (answer.code != 206) return 0;
  absl::string_view range = answer.header("content-range");
  if (!absl::StartsWithIgnoreCase(range, "bytes ")) return -1;
  range.remove_prefix(6);
  return NumberOr(range.substr(0, range.find('-')), -1);
}

bool IsBusy(int code) { return code == 408 || code == 425 || code == 429 || code >= 500; }

// What the store itself says of a refusal: " (SignatureDoesNotMatch: ...)".
std::string Said(const TransferAnswer& answer) {
  const std::string code = XmlElement(answer.body, "Code");
  const std::string message = XmlElement(answer.body, "Message");
  if (code.empty() && message.empty()) return absl::StrCat("HTTP ", answer.code);
  return absl::Utf8SafeCEscape(
      absl::StrCat("HTTP ", answer.code, " ", code, message.empty() ? "" : ": ", message));
}

absl::Status Refused(const ObjectUrl& url, const StoreIdentity& identity, absl::string_view remedy,
                     const TransferAnswer& answer) {
  if (answer.code == 401 || answer.code == 403) {
    return absl::PermissionDeniedError(
        absl::StrCat(url.shown, ": access denied to ",
                     identity.source.empty() ? "one without credentials" : identity.source, " (",
                     Said(answer), "): ", remedy));
  }
  if (answer.code == 404 || answer.code == 410) {
    return absl::NotFoundError(absl::StrCat(url.shown, ": there is no such object (", Said(answer),
                                            "): check bucket, name and region"));
  }
  std::string region(answer.header("x-amz-bucket-region"));
  if (region.empty()) region = XmlElement(answer.body, "Region");
  if (!region.empty() && url.kind == ObjectStoreKind::kS3) {
    return absl::InvalidArgumentError(absl::StrCat(url.shown, ": the bucket is in region ", region,
                                                   " (", Said(answer),
                                                   "): set AWS_REGION=", region));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      url.shown, ": the store refuses the request (", Said(answer), ")",
      answer.header("location").empty() ? "" : " and points to ", answer.header("location")));
}

// The reading of one object: requests until all is there.
class Reading {
 public:
  // identity: kept from one reading to the next; none at first.
  Reading(const HttpObjectOptions& options, const ObjectUrl& url, ObjectTransfer& transfer,
          std::optional<StoreIdentity>& identity, ObjectSink& sink)
      : options_(options), url_(url), transfer_(transfer), identity_(identity), sink_(sink) {}

  absl::Status Run(const ObjectVersion& have, int64_t have_bytes) {
    version_ = have;
    offset_ = have_bytes;
    progress_ = offset_;
    last_progress_ = SteadyClock().Now();
    for (;;) {
      ASSIGN_OR_RETURN(const bool done, Ask());
      if (done) return absl::OkStatus();
      RETURN_IF_ERROR(Pause());
    }
  }

 private:
  // Whether the sink has all now. Of what may heal, `why_` tells.
  absl::StatusOr<bool> Ask() {
    const bool is_new = !identity_.has_value();
    if (is_new) {
      absl::StatusOr<StoreIdentity> found =
          FindIdentity(url_.kind, options_.environment, options_.patience, transfer_);
      if (absl::IsUnavailable(found.status())) return Later(found.status().message());
      RETURN_IF_ERROR(found.status());
      identity_ = *std::move(found);
    }
    ASSIGN_OR_RETURN(const ObjectAccess access, AccessTo(url_, *identity_, options_.environment));
    TransferRequest request = access.request;
    request.patience = options_.patience;
    AddConditions(&request);
    begun_ = false;
    const TransferAnswer answer =
        transfer_.Perform(request, [this](const TransferAnswer& head, absl::string_view bytes) {
          return Receive(head, bytes);
        });
    if (absl::IsCancelled(answer.refused)) {
      return absl::CancelledError(absl::StrCat("interrupted while ", url_.shown, " was read"));
    }
    if (is_whole_) return true;
    RETURN_IF_ERROR(answer.refused);
    if (answer.code == 0 && !answer.may_heal) {
      return absl::InvalidArgumentError(
          absl::StrCat(url_.shown, ": ", answer.failure,
                       "; name trusted authorities by SSL_CERT_FILE, or AWS_CA_BUNDLE for s3"));
    }
    if ((answer.code == 401 || answer.code == 403) && !is_new && !identity_->source.empty()) {
      identity_.reset();  // it may have expired
      return Later(Said(answer));
    }
    return Conclude(access, answer);
  }

  absl::StatusOr<bool> Conclude(const ObjectAccess& access, const TransferAnswer& answer) {
    switch (answer.code) {
      case 200:
      case 206:
        if (answer.failure.empty()) RETURN_IF_ERROR(BeginOnce(answer));  // it may have no bytes
        if (answer.failure.empty() && (version_.size < 0 || offset_ == version_.size)) return true;
        return Later(
            absl::StrCat("the answer ended after ", offset_,
                         version_.size < 0 ? "" : absl::StrCat(" of ", version_.size), " bytes",
                         answer.failure.empty() ? "" : absl::StrCat(" (", answer.failure, ")")));
      case 304:
        if (has_all()) return true;
        return Refused(url_, *identity_, access.remedy, answer);
      case 412:  // another content than the one that the first bytes are of
      case 416:
        if (received_ || offset_ == 0) return Changed("another version");
        version_ = {};
        offset_ = 0;
        return Later("its first bytes are of another version");
      case 0:
        return Later(answer.failure);
      default:
        if (IsBusy(answer.code)) return Later(Said(answer));
        return Refused(url_, *identity_, access.remedy, answer);
    }
  }

  bool has_all() const { return version_.size >= 0 && offset_ == version_.size; }
  // Whether a later answer can be told to be of the same content.
  bool is_named() const { return !version_.etag.empty() || !version_.last_modified.empty(); }

  // The rest of a part, or all if it is another version.
  void AddConditions(TransferRequest* request) const {
    const bool weak = version_.etag.empty() || absl::StartsWith(version_.etag, "W/");
    if (offset_ > 0 && !has_all() && is_named()) {
      request->first_byte = offset_;
      if (!weak) request->headers.push_back(absl::StrCat("If-Match: ", version_.etag));
    } else if (has_all()) {
      if (!version_.etag.empty()) {
        request->headers.push_back(absl::StrCat("If-None-Match: ", version_.etag));
      } else if (!version_.last_modified.empty()) {
        request->headers.push_back(absl::StrCat("If-Modified-Since: ", version_.last_modified));
      }
    }
  }

  absl::Status BeginOnce(const TransferAnswer& head) {
    if (begun_) return absl::OkStatus();
    const ObjectVersion version = VersionOf(head);
    const int64_t offset = OffsetOf(head);
    if (offset != 0 && offset != offset_) {
      return absl::InvalidArgumentError(
          absl::StrCat(url_.shown, ": asked for bytes from ", offset_, ", the store sent \"",
                       head.header("content-range"), "\": it does not know ranges"));
    }
    if (version == version_ && has_all() && is_named() && !received_) {
      is_whole_ = true;  // a store that does not know conditions
      return absl::AbortedError("nothing has changed");
    }
    if (version != version_) {
      if (received_ || offset != 0) return Changed(version.etag);
      version_ = version;
    }
    offset_ = offset;
    begun_ = true;
    return sink_.Begin(version_, offset_);
  }

  absl::Status Receive(const TransferAnswer& head, absl::string_view bytes) {
    RETURN_IF_ERROR(BeginOnce(head));
    RETURN_IF_ERROR(sink_.Append(bytes));
    offset_ += static_cast<int64_t>(bytes.size());
    received_ = true;
    if (offset_ < progress_ + kProgressBytes) return absl::OkStatus();
    progress_ = offset_;
    last_progress_ = SteadyClock().Now();
    pause_ = kFirstPause;
    return absl::OkStatus();
  }

  absl::Status Changed(absl::string_view found) const {
    return absl::UnavailableError(
        absl::StrCat(url_.shown, " changed while it was read: its ETag was ", version_.etag,
                     ", and it is ", found, " now; start again when nobody writes to it"));
  }

  absl::StatusOr<bool> Later(absl::string_view why) {
    why_ = std::string(why);
    return false;
  }

  absl::Status Pause() {
    if (SteadyClock().Now() - last_progress_ >= options_.patience) {
      return absl::UnavailableError(absl::StrCat(
          url_.shown, ": ", why_, "; no progress for ", absl::FormatDuration(options_.patience),
          ": check that the store runs and can be reached, or allow more by DSLIDE_DATA_PATIENCE"));
    }
    if (pause_ == kFirstPause && options_.note) {
      options_.note(absl::StrCat(url_.shown, ": ", why_, ": trying again"));
    }
    for (absl::Duration waited; waited < pause_; waited += kStopCheck) {
      if (options_.stop_requested && options_.stop_requested()) {
        return absl::CancelledError(absl::StrCat("interrupted while ", url_.shown, " was read"));
      }
      absl::SleepFor(kStopCheck);
    }
    pause_ = std::min(pause_ * 2, kLongestPause);
    return absl::OkStatus();
  }

  const HttpObjectOptions& options_;
  const ObjectUrl& url_;
  ObjectTransfer& transfer_;
  std::optional<StoreIdentity>& identity_;
  ObjectSink& sink_;
  ObjectVersion version_;
  int64_t offset_ = 0;     // of `version_`, the sink has so many bytes
  bool received_ = false;  // bytes of this reading: nothing but `version_` may follow them
  bool begun_ = false;     // the sink knows of the answer under way
  bool is_whole_ = false;  // the sink has all of a content that has not changed
  int64_t progress_ = 0;   // the offset that was reached at `last_progress_`
  absl::Duration last_progress_;
  absl::Duration pause_ = kFirstPause;
  std::string why_;
};

}  // namespace

HttpObjectSource::HttpObjectSource(HttpObjectOptions options)
    : options_(std::move(options)), transfer_(options_.stop_requested) {}

absl::Status HttpObjectSource::Read(const ObjectUrl& url, const ObjectVersion& have,
                                    int64_t have_bytes, ObjectSink& sink) {
  if (kind_ != url.kind) identity_.reset();
  kind_ = url.kind;
  return Reading(options_, url, transfer_, identity_, sink).Run(have, have_bytes);
}

}  // namespace dslide
