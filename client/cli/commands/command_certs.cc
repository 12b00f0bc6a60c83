// dslide certs dev, dslide certs issue, dslide certs revoke

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/cluster/development_certificates.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/shell_word.h"
#include "client/cli/console/terminal.h"
#include "core/base/status_macros.h"
#include "core/net/tls/certificate_roles.h"
#include "core/system/log.h"

namespace dslide::cli {
namespace {

// How a cluster is started with them, by example.
std::string NextSteps(const std::string& directory) {
  const auto flags = [&directory](const char* role) {
    const auto file = [&directory](absl::string_view name) {
      return ShellWord(absl::StrCat(directory, "/", name));
    };
    return absl::StrCat("--tls-ca ", file("ca.crt"), " --tls-cert ",
                        file(absl::StrCat(role, ".crt")), " --tls-key ",
                        file(absl::StrCat(role, ".key")));
  };
  return absl::StrCat("Next:\n  dslide-coordinator --shards 1 ", flags("coordinator"),
                      "\n  dslide-shard --coordinator 127.0.0.1:7000 ", flags("shard"),
                      "\n  dslide status --cluster 127.0.0.1:7000 ", flags("operator"),
                      "\n  dslide train --cluster 127.0.0.1:7000 --data FILE ", flags("trainer"),
                      "\nWhoever has ca.key can make any certificate of this cluster: keep it off "
                      "its machines, and ",
                      "do not use it in production.");
}

absl::StatusOr<int> RunDev(const GlobalOptions& global, const DevelopmentCertificates& wanted) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   WriteDevelopmentCertificates(wanted, absl::Now()));
  if (global.json()) {
    nlohmann::ordered_json json;
    json["directory"] = wanted.directory;
    json["cluster"] = wanted.cluster;
    json["days"] = wanted.days;
    json["files"] = names;
    PrintLine(json.dump());
    return kExitOk;
  }
  PrintLine(absl::StrCat("Wrote to ", wanted.directory, ", valid for ", wanted.days, " days: ",
                         absl::StrJoin(names, " "), "\n\n", NextSteps(wanted.directory)));
  return kExitOk;
}

absl::StatusOr<Role> RoleFromName(const std::string& name) {
  std::vector<std::string> known;
  for (const Role role : kAllRoles) {
    if (name == RoleName(role)) return role;
    known.emplace_back(RoleName(role));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--role ", EscapeForLog(name, 64), ": there are: ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<int> RunIssue(const GlobalOptions& global, FurtherCertificate wanted,
                             const std::string& role) {
  ASSIGN_OR_RETURN(wanted.role, RoleFromName(role));
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   IssueFurtherCertificate(wanted, absl::Now()));
  if (global.json()) {
    nlohmann::ordered_json json;
    json["directory"] = wanted.directory;
    json["cluster"] = wanted.cluster;
    json["role"] = role;
    json["jobs"] = wanted.jobs;
    json["days"] = wanted.days;
    json["files"] = names;
    PrintLine(json.dump());
    return kExitOk;
  }
  PrintLine(absl::StrCat(
      "Wrote to ", wanted.directory, ", valid for ", wanted.days,
      " days: ", absl::StrJoin(names, " "), ". Its holder is ", role,
      wanted.jobs.empty()
          ? "."
          : absl::StrCat(" of job ", absl::StrJoin(wanted.jobs, ", "), " and of no other.")));
  return kExitOk;
}

absl::StatusOr<int> RunRevoke(const GlobalOptions& global, const std::string& directory,
                              const std::string& certificate) {
  ASSIGN_OR_RETURN(const std::string list, RevokeCertificate(directory, certificate, absl::Now()));
  if (global.json()) {
    nlohmann::ordered_json json;
    json["certificate"] = certificate;
    json["list"] = list;
    PrintLine(json.dump());
    return kExitOk;
  }
  PrintLine(absl::StrCat("Revoked ", certificate, " by ", list,
                         "\nBring that file to the --tls-crl-dir of every server and client under "
                         "the same name: new connections are refused from then on. Connections "
                         "that are open end within --max-connection-age."));
  return kExitOk;
}

constexpr char kHostHelp[] =
    "Name or IP address under which shards or the coordinator are reached; repeatable. localhost "
    "and loopback addresses are always there";
constexpr char kClusterHelp[] = "Name of the cluster, as the servers' --tls-cluster says";

Flag AddList(CliCommand command, const char* name, const char* type,
             std::vector<std::string>& values, const char* help) {
  return command.Add(name, values, help).TypeName(type).OneValueEach();
}

void AddIssueCommand(CliCommand certs, Context& context) {
  const CliCommand issue = certs.AddSubcommand(
      "issue", "One certificate more, of the authority that `certs dev` has made",
      "Examples:\n"
      "  dslide certs issue --from certs --job run-1\n"
      "  dslide certs issue --from certs --job run-1 --job run-2 --job append --name ann\n"
      "  dslide certs issue --from certs --role shard --name shard-7 --host 10.0.0.7");
  struct Wanted {
    FurtherCertificate certificate;
    std::string role = RoleName(Role::kTrainer);
  };
  auto wanted = std::make_shared<Wanted>();  // shared with the callback
  FurtherCertificate& certificate = wanted->certificate;
  issue
      .Add("--from", certificate.directory,
           "Directory with ca.crt and ca.key; the new files go there, too")
      .Required()
      .TypeName("DIR");
  issue.Add("--role", wanted->role, "What its holder is");
  AddList(issue, "--job", "NAME", certificate.jobs,
          "A trainer's: a job that its holder may work for; repeatable. Without: every job");
  issue.Add("--name", certificate.name,
            "Of the files, and of the holder; without: ROLE, or trainer-JOB");
  AddList(issue, "--host", "HOST", certificate.hosts, kHostHelp);
  issue.Add("--cluster", certificate.cluster, kClusterHelp);
  issue.Add("--days", certificate.days, "How long it is valid");
  issue.AddSwitch("--overwrite", certificate.overwrite, "Replace files that are there");
  issue.OnChosen([&context, wanted] {
    context.run = [&context, wanted] {
      return RunIssue(context.global, wanted->certificate, wanted->role);
    };
  });
}

void AddRevokeCommand(CliCommand certs, Context& context) {
  const CliCommand revoke =
      certs.AddSubcommand("revoke", "Adds a certificate to the authority's list of revoked ones",
                          "Examples:\n"
                          "  dslide certs revoke --from certs certs/trainer.crt");
  struct Wanted {
    std::string directory;
    std::string certificate;
  };
  auto wanted = std::make_shared<Wanted>();  // shared with the callback
  revoke
      .Add("--from", wanted->directory,
           "Directory with ca.crt and ca.key; the lists are kept in its folder crl")
      .Required()
      .TypeName("DIR");
  revoke.Add("certificate", wanted->certificate, "PEM file of the certificate")
      .Required()
      .TypeName("FILE");
  revoke.OnChosen([&context, wanted] {
    context.run = [&context, wanted] {
      return RunRevoke(context.global, wanted->directory, wanted->certificate);
    };
  });
}

}  // namespace

void AddCertsCommand(CliCommand app, Context& context) {
  const CliCommand certs =
      app.AddSubcommand("certs", "Make certificates for a development cluster",
                        "Examples:\n"
                        "  dslide certs dev --output certs\n"
                        "  dslide certs dev --output certs --host shard-0 --host 10.0.0.7\n"
                        "  dslide certs issue --from certs --job run-1\n"
                        "  dslide certs revoke --from certs certs/trainer.crt");
  certs.RequireSubcommand();
  const CliCommand dev = certs.AddSubcommand(
      "dev", "A certificate authority and one certificate for each role",
      "Examples:\n"
      "  dslide certs dev --output certs\n"
      "  dslide certs dev --output certs --host shard-0 --host 10.0.0.7 --days 90 --overwrite");
  auto wanted = std::make_shared<DevelopmentCertificates>();  // shared with the callback
  dev.Add("--output", wanted->directory, "Directory to write to; made when absent")
      .Required()
      .TypeName("DIR");
  AddList(dev, "--host", "HOST", wanted->hosts, kHostHelp);
  AddList(dev, "--job", "NAME", wanted->jobs,
          "A trainer's certificate more, trainer-NAME.crt, for this job alone; repeatable");
  dev.Add("--cluster", wanted->cluster, kClusterHelp);
  dev.Add("--days", wanted->days, "How long they are valid");
  dev.AddSwitch("--overwrite", wanted->overwrite, "Replace files that are there");
  AddIssueCommand(certs, context);
  AddRevokeCommand(certs, context);
  RunWhenChosen(dev, context, wanted, RunDev);
}

}  // namespace dslide::cli
