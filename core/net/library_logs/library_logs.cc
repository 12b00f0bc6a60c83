#include "core/net/library_logs/library_logs.h"

#include <grpcpp/version_info.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/system/log.h"
#include "core/system/process/uncaught.h"

// Each had a log of its own until Abseil had one for all.
#define DSLIDE_GRPC_LOGS (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65)
#if DSLIDE_GRPC_LOGS
#include <grpc/support/log.h>
#endif
#if __has_include(<google/protobuf/stubs/logging.h>)
#define DSLIDE_PROTOBUF_LOGS 1
#include <google/protobuf/stubs/logging.h>
#else
#define DSLIDE_PROTOBUF_LOGS 0
#endif
#if __has_include(<absl/log/log_sink_registry.h>)
#define DSLIDE_ABSL_LOGS 1
#include <absl/log/globals.h>
#include <absl/log/initialize.h>
#include <absl/log/log_sink.h>
#include <absl/log/log_sink_registry.h>
#else
#define DSLIDE_ABSL_LOGS 0
#endif

namespace dslide {
namespace {

void Forward(const char* library, bool warning, absl::string_view path, int line,
             absl::string_view message) {
  if (absl::StrContains(message, "worker-thread") || absl::StrContains(message, "pthread_create")) {
    NoteThreadsRanOut();
  }
  const LogLevel level = warning ? LogLevel::kWarning : LogLevel::kDebug;
  if (!LogEnabled(level)) return;
  const absl::string_view file = path.substr(path.rfind('/') + 1);
  Log(level, library, {{"message", message}, {"at", absl::StrCat(file, ":", line)}});
}

#if DSLIDE_GRPC_LOGS
void ForwardGrpc(gpr_log_func_args* said) {
  Forward("gRPC", said->severity >= GPR_LOG_SEVERITY_ERROR, said->file, said->line, said->message);
}
#endif

#if DSLIDE_PROTOBUF_LOGS
void ForwardProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                     const std::string& message) {
  Forward("protobuf", level >= google::protobuf::LOGLEVEL_WARNING, file, line, message);
}
#endif

#if DSLIDE_ABSL_LOGS
class ForwardingSink final : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    Forward("abseil", entry.log_severity() >= absl::LogSeverity::kWarning, entry.source_filename(),
            entry.source_line(), entry.text_message());
  }
};
#endif

}  // namespace

void ForwardLibraryLogs() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#if DSLIDE_GRPC_LOGS
  gpr_set_log_function(ForwardGrpc);
#endif
#if DSLIDE_PROTOBUF_LOGS
  google::protobuf::SetLogHandler(ForwardProtobuf);
#endif
#if DSLIDE_ABSL_LOGS
  absl::InitializeLog();
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::AddLogSink(new ForwardingSink());  // for the life of the process
#endif
}

}  // namespace dslide
