#include "client/objects/object_transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

constexpr size_t kMaxBodyBytes = 64 << 10;
constexpr long kSlowestBytesPerSecond = 1024;  // NOLINT(google-runtime-int): of libcurl
constexpr long kMaxRedirects = 5;              // NOLINT(google-runtime-int): of libcurl

bool IsContent(int code) { return code == 200 || code == 206; }

// What does not change when the same is asked for again.
bool IsPermanent(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_BAD_FUNCTION_ARGUMENT:
      return true;
    default:
      return false;
  }
}

struct Exchange {
  CURL* easy = nullptr;
  const ObjectTransfer::Receive* receive = nullptr;  // null: all goes to `answer.body`
  const std::function<bool()>* stop_requested = nullptr;
  TransferAnswer answer = {};
};

size_t OnHeader(const char* data, size_t size, size_t count, void* context) {
  auto* exchange = static_cast<Exchange*>(context);
  const absl::string_view line(data, size * count);
  if (absl::StartsWith(line, "HTTP/")) {
    exchange->answer.headers.clear();  // of a redirect
  } else if (const size_t colon = line.find(':'); colon != absl::string_view::npos) {
    exchange->answer.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return line.size();
}

size_t OnBody(const char* data, size_t size, size_t count, void* context) {
  auto* exchange = static_cast<Exchange*>(context);
  TransferAnswer& answer = exchange->answer;
  const absl::string_view bytes(data, size * count);
  long code = 0;  // NOLINT(google-runtime-int): of libcurl
  curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &code);
  answer.code = static_cast<int>(code);
  if (exchange->receive == nullptr || !IsContent(answer.code)) {
    answer.body += std::string(bytes.substr(0, kMaxBodyBytes - answer.body.size()));
    return bytes.size();
  }
  answer.refused = (*exchange->receive)(answer, bytes);
  return answer.refused.ok() ? bytes.size() : 0;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* exchange = static_cast<Exchange*>(context);
  return *exchange->stop_requested && (*exchange->stop_requested)() ? 1 : 0;
}

// Once in a process, before the first handle.
bool InitializeCurl() {
  static const bool initialized = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return initialized;
}

}  // namespace

class ObjectTransfer::Impl {
 public:
  explicit Impl(std::function<bool()> stop_requested)
      : stop_requested_(std::move(stop_requested)),
        easy_(InitializeCurl() ? curl_easy_init() : nullptr) {}
  ~Impl() { curl_easy_cleanup(easy_); }

  TransferAnswer Perform(const TransferRequest& request, const Receive* receive) {
    Exchange exchange{.easy = easy_, .receive = receive, .stop_requested = &stop_requested_};
    if (easy_ == nullptr) {
      exchange.answer.failure = "libcurl did not start";
      return exchange.answer;
    }
    curl_easy_reset(easy_);  // connections stay
    curl_slist* headers = nullptr;
    for (const std::string& header : request.headers) {
      headers = curl_slist_append(headers, header.c_str());
    }
    std::string reason(CURL_ERROR_SIZE, '\0');
    curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, reason.data());
    curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers);
    SetRequest(request);
    SetReceivers(&exchange);
    const CURLcode code = curl_easy_perform(easy_);
    long http_code = 0;  // NOLINT(google-runtime-int): of libcurl
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &http_code);
    exchange.answer.code = static_cast<int>(http_code);
    if (code != CURLE_OK && exchange.answer.refused.ok()) {
      reason.resize(strlen(reason.c_str()));
      exchange.answer.failure = reason.empty() ? curl_easy_strerror(code) : reason;
      exchange.answer.may_heal = !IsPermanent(code);
      if (code == CURLE_ABORTED_BY_CALLBACK) {
        exchange.answer.refused = absl::CancelledError("interrupted");
      }
    }
    curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, nullptr);
    curl_slist_free_all(headers);
    return exchange.answer;
  }

 private:
  void SetRequest(const TransferRequest& request) {
    curl_easy_setopt(easy_, CURLOPT_URL, request.url.c_str());
    // Newer versions of curl sign no path that they may not put in order themselves.
    curl_easy_setopt(easy_, CURLOPT_PATH_AS_IS, request.aws_sigv4.empty() ? 1L : 0L);
    curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy_, CURLOPT_REDIR_PROTOCOLS_STR,
                     absl::StartsWith(request.url, "https:") ? "https" : "http,https");
    curl_easy_setopt(easy_, CURLOPT_FOLLOWLOCATION, request.follows_redirects ? 1L : 0L);
    curl_easy_setopt(easy_, CURLOPT_MAXREDIRS, kMaxRedirects);
    curl_easy_setopt(easy_, CURLOPT_USERAGENT, "dslide");
    if (request.post.has_value()) {
      curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.post->size()));
      curl_easy_setopt(easy_, CURLOPT_COPYPOSTFIELDS, request.post->c_str());
    }
    if (request.first_byte > 0) {
      curl_easy_setopt(easy_, CURLOPT_RANGE, absl::StrCat(request.first_byte, "-").c_str());
    }
    if (!request.aws_sigv4.empty()) {
      curl_easy_setopt(easy_, CURLOPT_AWS_SIGV4, request.aws_sigv4.c_str());
      curl_easy_setopt(easy_, CURLOPT_USERNAME, request.access_key.c_str());
      curl_easy_setopt(easy_, CURLOPT_PASSWORD, request.secret_key.c_str());
    }
    if (!request.ca_file.empty()) {
      curl_easy_setopt(easy_, CURLOPT_CAINFO, request.ca_file.c_str());
    }
    curl_easy_setopt(
        easy_, CURLOPT_NETRC,
        static_cast<long>(request.uses_netrc ? CURL_NETRC_OPTIONAL : CURL_NETRC_IGNORED));
    curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(absl::ToInt64Milliseconds(request.patience)));
    curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_LIMIT, kSlowestBytesPerSecond);
    curl_easy_setopt(
        easy_, CURLOPT_LOW_SPEED_TIME,
        static_cast<long>(std::max<int64_t>(1, absl::ToInt64Seconds(request.patience))));
    curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  }

  void SetReceivers(Exchange* exchange) {
    curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &OnHeader);
    curl_easy_setopt(easy_, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &OnBody);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(easy_, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy_, CURLOPT_XFERINFOFUNCTION, &OnProgress);
    curl_easy_setopt(easy_, CURLOPT_XFERINFODATA, exchange);
  }

  const std::function<bool()> stop_requested_;
  CURL* const easy_;
};

ObjectTransfer::ObjectTransfer(std::function<bool()> stop_requested)
    : impl_(std::make_unique<Impl>(std::move(stop_requested))) {}

ObjectTransfer::~ObjectTransfer() = default;

TransferAnswer ObjectTransfer::Perform(const TransferRequest& request, const Receive& receive) {
  return impl_->Perform(request, &receive);
}

TransferAnswer ObjectTransfer::Perform(const TransferRequest& request) {
  return impl_->Perform(request, nullptr);
}

}  // namespace dslide
