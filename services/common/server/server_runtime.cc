#include "services/common/server/server_runtime.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/server_interceptor.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/system/listen_address.h"
#include "core/system/log.h"
#include "services/common/exit_codes.h"
#include "services/common/files/data_dir_error.h"
#include "services/common/server/transport.h"

namespace dslide {
namespace {

// How long no call has to be running before connections are ended, so that the last answers are on
// their way; and how often that is looked at.
constexpr absl::Duration kQuiet = absl::Milliseconds(300);
constexpr absl::Duration kLookInterval = absl::Milliseconds(20);

// The reflection library adds itself to every server of a process that links it; this takes it out
// again where it is not wanted.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

// Tells the listener whose calls got as far as a handler.
class PermittedCalls final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit PermittedCalls(LimitedListener* listener) : listener_(listener) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new Note(listener_, info);  // gRPC's
  }

 private:
  // Of one call.
  class Note final : public grpc::experimental::Interceptor {
   public:
    Note(LimitedListener* listener, grpc::experimental::ServerRpcInfo* call)
        : listener_(listener), call_(call) {}
    void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
      // The call has no peer before.
      if (methods->QueryInterceptionHookPoint(
              grpc::experimental::InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
        listener_->NotePermitted(call_->server_context()->peer());
      }
      methods->Proceed();
    }

   private:
    LimitedListener* const listener_;
    grpc::experimental::ServerRpcInfo* const call_;
  };

  LimitedListener* const listener_;
};

absl::Status CannotListen(const std::string& where) {
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", where,
      ": the address was free a moment ago, so another process is probably starting there too"));
}

}  // namespace

absl::Status CheckServerOptions(const ServerOptions& options) {
  if (!options.listen.empty()) {
    ASSIGN_OR_RETURN(const ListenAddress listen, ParseListenAddress(options.listen));
    if (options.tls.files.empty()) RETURN_IF_ERROR(CheckPlaintext(listen, options.insecure));
  }
  RETURN_IF_ERROR(CheckTlsSettings(options.tls));
  if (options.admin.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ListenAddress admin, ParseListenAddress(options.admin));
  if (!admin.is_unix) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the admin address ", options.admin, " must be host:port"));
}

ServerRuntime::ServerRuntime(const ServerOptions& options, ServerHooks hooks)
    : options_(options), hooks_(std::move(hooks)) {}

absl::StatusOr<std::unique_ptr<ServerRuntime>> ServerRuntime::Start(
    const ServerOptions& options, const std::vector<ServedService>& services, Metrics& metrics,
    ServerHooks hooks, std::unique_ptr<AdminPage> admin) {
  std::unique_ptr<ServerRuntime> runtime(new ServerRuntime(options, std::move(hooks)));
  metrics.AddGauge("dslide_server_insecure", "1 when the server was started with --insecure.")
      .Set(options.insecure ? 1 : 0);
  metrics.AddGauge("dslide_server_tls", "1 when connections are encrypted.")
      .Set(options.tls.files.empty() ? 0 : 1);
  if (admin == nullptr) {
    ASSIGN_OR_RETURN(admin, AdminPage::Open(options.binary, options.admin, metrics));
  }
  runtime->admin_ = std::move(admin);
  runtime->admin_->SetStatus(runtime->hooks_.status);
  RETURN_IF_ERROR(runtime->StartServer(services, metrics));
  runtime->SetReady(false, "starting");
  return runtime;
}

ServerRuntime::~ServerRuntime() {
  if (server_ != nullptr) Drain().IgnoreError();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerRuntime::Credentials(
    const ListenAddress& listen, Metrics& metrics) const {
  std::shared_ptr<TlsStore> store = options_.tls_store;
  if (store == nullptr) {
    ASSIGN_OR_RETURN(store, OpenTls(options_.tls));
  }
  if (store == nullptr) {
    RETURN_IF_ERROR(CheckPlaintext(listen, options_.insecure));
    return grpc::InsecureServerCredentials();
  }
  AddTlsMetrics(store, metrics);
  if (store->ca_path().empty()) {
    LogWarning(
        "clients need no certificate: without --tls-ca whoever connects may call everything");
  }
  return MakeTlsServerCredentials(*store, options_.tls, metrics);
}

absl::Status ServerRuntime::StartServer(const std::vector<ServedService>& services,
                                        Metrics& metrics) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetServerArguments(builder);
  if (!options_.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  for (const ServedService& served : services) {
    builder.RegisterService(served.service);
    service_names_.push_back(served.name);
  }
  if (!options_.listen.empty()) RETURN_IF_ERROR(Listen(builder, metrics));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return CannotListen(options_.listen);
  if (listener_ != nullptr) {
    listener_->Start([acceptor = acceptor_.get()](int listener_fd, int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.listener_fd = listener_fd;
      connection.fd = fd;
      acceptor->HandleNewConnection(&connection);
    });
  }
  return absl::OkStatus();
}

absl::Status ServerRuntime::Listen(grpc::ServerBuilder& builder, Metrics& metrics) {
  ASSIGN_OR_RETURN(ListenAddress listen, ParseListenAddress(options_.listen));
  ASSIGN_OR_RETURN(const auto credentials, Credentials(listen, metrics));
  SetMaxConnectionAge(builder, options_.max_connection_age);
  if (listen.is_unix) {
    RETURN_IF_ERROR(CheckListenable(listen));
    builder.AddListeningPort(listen.ToString(), credentials);
  } else {
    ASSIGN_OR_RETURN(listener_, LimitedListener::Bind(listen,
                                                      {.open = options_.max_connections,
                                                       .per_second = options_.max_connection_rate},
                                                      metrics));
    if (options_.max_connection_rate > 0) {
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> watchers;
      watchers.push_back(std::make_unique<PermittedCalls>(listener_.get()));
      builder.experimental().SetInterceptorCreators(std::move(watchers));
    }
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
    listen.port = listener_->port();
  }
  address_ = listen.ToString();
  if (options_.tls.files.empty() && !IsLocalOnly(listen)) {
    LogWarning("serving plaintext to other machines because of --insecure",
               {{"address", address_}});
  }
  return absl::OkStatus();
}

std::string ServerRuntime::admin_address() const { return admin_->address(); }

absl::StatusOr<std::shared_ptr<grpc::Channel>> ServerRuntime::InProcessChannel() {
  const absl::MutexLock lock(&mu_);  // held: gRPC aborts when a stopped server is asked
  if (draining_) {
    return absl::UnavailableError(absl::StrCat(options_.binary, " in this process has stopped"));
  }
  return server_->InProcessChannel(ServiceChannelArguments());
}

void ServerRuntime::SetReady(bool ready, const std::string& reason) {
  const absl::MutexLock lock(&mu_);
  if (draining_) return;
  admin_->SetReadiness({ready, ready ? std::string() : reason});
  auto* const health = server_->GetHealthCheckService();
  health->SetServingStatus("", ready);
  for (const std::string& name : service_names_) health->SetServingStatus(name, ready);
}

absl::Status ServerRuntime::Drain() {
  const absl::MutexLock drain_lock(&drain_mu_);
  if (drained_) return drain_result_;
  drained_ = true;
  SetReady(false, "draining");
  {
    const absl::MutexLock lock(&mu_);
    draining_ = true;
  }
  absl::SleepFor(options_.drain_delay);
  if (listener_ != nullptr) listener_->Stop();
  if (hooks_.before_shutdown) hooks_.before_shutdown();
  ShutDown();
  if (hooks_.after_shutdown) drain_result_ = hooks_.after_shutdown();
  return drain_result_;
}

void ServerRuntime::ShutDown() {
  absl::Notification ended;
  std::thread watcher;
  if (listener_ != nullptr && hooks_.running_calls) {
    watcher = std::thread([this, &ended] { HangUpWhenQuiet(ended); });
  }
  server_->Shutdown(std::chrono::system_clock::now() +
                    absl::ToChronoMilliseconds(options_.drain_timeout));
  server_->Wait();
  ended.Notify();
  if (watcher.joinable()) watcher.join();
}

void ServerRuntime::HangUpWhenQuiet(const absl::Notification& ended) {
  // gRPC keeps a connection until its client has confirmed that it knows of the stop, and a client
  // that is not calling may look at its connection only seconds later.
  absl::Duration quiet;
  while (!ended.WaitForNotificationWithTimeout(kLookInterval)) {
    quiet = hooks_.running_calls() == 0 ? quiet + kLookInterval : absl::ZeroDuration();
    if (quiet >= kQuiet) return listener_->HangUp();
  }
}

int ServeUntilSignal(ServerRuntime& runtime, SignalWaiter& signals) {
  const int number = signals.Wait();
  LogInfo("stopping", {{"signal", number}});
  const absl::Status drained = runtime.Drain();
  if (!drained.ok()) {
    LogError("the last step of stopping failed", {{"error", drained.ToString()}});
    return kExitFailure;
  }
  LogInfo("stopped");
  return kExitOk;
}

int ExitCodeOfStart(const absl::Status& status) {
  if (IsDataDirError(status)) return kExitDataDir;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return kExitUsage;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnavailable:
      return kExitCannotListen;
    case absl::StatusCode::kDataLoss:
      return kExitDataDir;
    default:
      return kExitFailure;
  }
}

}  // namespace dslide
