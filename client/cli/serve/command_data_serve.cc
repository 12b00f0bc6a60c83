#include "client/cli/serve/command_data_serve.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/terminal.h"
#include "client/cli/serve/data_service.h"
#include "client/cli/serve/server_flags.h"
#include "client/cli/train/data_source.h"
#include "core/base/status_macros.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/data/text/tokenizer_json.h"
#include "services/common/signal_waiter.h"

namespace dslide::cli {
namespace {

constexpr char kDataServeExamples[] =
    R"(For trainers that have no room for the data, or no volume that all of them may read: each asks for
the points of its own work, when it comes to them. It is ready when the data is read and checked.

Examples:
  dslide data serve --data s3://bucket/set/train.txt.gz --eval s3://bucket/set/test.txt.gz
  dslide train --data grpc://127.0.0.1:7040/data --eval grpc://127.0.0.1:7040/eval
      The same as with the files, to the last bit.
  dslide data serve --data train.txt --listen :7040 --tls-cert data.crt --tls-key data.key \
      --tls-ca ca.crt
      Its callers show certificates of the role trainer or operator.)";

struct DataServeOptions {
  std::string data;
  std::string eval;
  DataOptions source;
  ServerFlags flags;
  int64_t threads = 0;
};

absl::StatusOr<ServedData> Served(std::unique_ptr<Dataset> data,
                                  const std::optional<TokenizerOptions>& tokenizer,
                                  Parallelism parallelism) {
  ServedData served;
  ASSIGN_OR_RETURN(LabelCounts labels, CountLabels(*data, parallelism));
  served.label_points = std::move(labels.of_label);
  if (tokenizer.has_value()) served.tokenizer = TokenizerToJson(*tokenizer);
  served.data = std::move(data);
  return served;
}

absl::StatusOr<ServedDatasets> ReadDatasets(const GlobalOptions& global,
                                            const DataServeOptions& options) {
  const Parallelism parallelism = ThreadsOrAll(options.threads);
  ASSIGN_OR_RETURN(ImportedData opened, OpenTrainingData(options.data, options.eval, options.source,
                                                         parallelism, global.quiet));
  ServedDatasets datasets;
  ASSIGN_OR_RETURN(datasets["data"], Served(std::move(opened.data), opened.tokenizer, parallelism));
  if (opened.eval == nullptr) return datasets;
  ASSIGN_OR_RETURN(datasets["eval"], Served(std::move(opened.eval), opened.tokenizer, parallelism));
  return datasets;
}

void AnnounceDatasets(const GlobalOptions& global, const ServerRuntime& runtime,
                      const ServedDatasets& datasets) {
  if (global.json()) {
    nlohmann::ordered_json json;
    json["grpc"] = runtime.address();
    json["admin"] = runtime.admin_address();
    for (const auto& [name, served] : datasets) {
      json["points"][name] = served.data->num_points();
    }
    return PrintLine(json.dump());
  }
  for (const auto& [name, served] : datasets) {
    PrintLine(absl::StrCat("Serving ", WithThousands(served.data->num_points()), " points of ",
                           served.data->path(), " as grpc://", runtime.address(), "/", name));
  }
  if (!runtime.admin_address().empty()) {
    PrintLine(absl::StrCat("Health and metrics: http://", runtime.admin_address()));
  }
}

StatusPage PageOfData(const DataServiceImpl& service) {
  StatusPage page;
  const std::shared_ptr<const ServedDatasets> datasets = service.datasets();
  if (datasets == nullptr) {
    page.facts = {{"Data", "is being read"}};
    return page;
  }
  for (const auto& [name, served] : *datasets) {
    page.facts.push_back({name, absl::StrCat(WithThousands(served.data->num_points()),
                                             " points of ", served.data->path())});
  }
  return page;
}

absl::StatusOr<int> RunDataServe(const GlobalOptions& global, DataServeOptions& options) {
  SignalWaiter signals;  // before any thread
  RETURN_IF_ERROR(ResolveServerFlags(global, "dslide data serve", options.flags));
  Metrics metrics;
  metrics.AddProcessMetrics();
  DataServiceImpl service(metrics);
  ServerHooks hooks;
  hooks.running_calls = [&service] { return service.running_calls(); };
  hooks.status = [&service] { return PageOfData(service); };
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerRuntime> runtime,
                   ServerRuntime::Start(options.flags.server, {{&service, kDataServiceName}},
                                        metrics, std::move(hooks)));
  runtime->SetReady(false, "the data is being read");
  absl::Status failure;  // of the thread that reads
  std::thread reader([&] {
    absl::StatusOr<ServedDatasets> datasets = ReadDatasets(global, options);
    if (!datasets.ok()) {
      failure = datasets.status();
      return signals.Trigger();
    }
    service.Open(*std::move(datasets));
    runtime->SetReady(true);
    AnnounceDatasets(global, *runtime, *service.datasets());
  });
  const int code = ServeUntilSignal(*runtime, signals);
  InterruptGuard::Interrupt();  // a reader that is not done yet
  reader.join();
  if (absl::IsCancelled(failure)) return code;
  RETURN_IF_ERROR(failure);
  return code;
}

}  // namespace

void AddDataServeCommand(CliCommand group, Context& context) {
  const CliCommand command = group.AddSubcommand(
      "serve", "Give trainers the points that they ask for, over gRPC", kDataServeExamples);
  const auto options = std::make_shared<DataServeOptions>();  // shared with the callback
  options->flags.server.listen = "127.0.0.1:7040";
  options->flags.server.admin = "127.0.0.1:7041";
  AddOption(command, "--data", options->data,
            "Training data: a file, or a URL of an object store (s3, gs, http, https)")
      .Required();
  AddOption(command, "--eval", options->eval, "Test data, likewise; empty: none");
  AddImportedDataOptions(command, options->source);
  AddServerFlags(command, options->flags, "the role trainer or operator");
  AddThreads(command, options->threads, "Of reading the data; 0: all of the machine");
  RunWhenChosen(command, context, options, RunDataServe);
}

}  // namespace dslide::cli
