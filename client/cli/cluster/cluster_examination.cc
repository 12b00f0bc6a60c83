#include "client/cli/cluster/cluster_examination.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dslide::cli {
namespace {

// A page that is read by nobody until it is red helps nobody: long enough to renew by hand.
constexpr absl::Duration kSoon = absl::Hours(24 * 14);
constexpr absl::Duration kVerySoon = absl::Hours(24 * 2);
// A checkpoint takes a while, and a busy cluster may be late by one.
constexpr int kLateIntervals = 3;
constexpr absl::Duration kLateAtLeast = absl::Minutes(2);

std::string ShardName(const ShardInfo& entry) {
  return absl::StrCat("shard ", entry.shard.value(), " at ", entry.address);
}

std::string Rounded(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

void JudgeLives(const std::string& where, const ClusterStatus& status, Findings& findings) {
  int64_t alive = 0;
  for (const ShardInfo& shard : status.shards) {
    if (shard.health == ShardHealth::kAlive) {
      ++alive;
    } else if (shard.health == ShardHealth::kLost) {
      findings.Error(ShardName(shard),
                     absl::UnavailableError("the coordinator hears no heartbeats of it"),
                     "look at its log and exit code; start it again with the same --shard-id and "
                     "--data-dir");
    } else {
      findings.Error(ShardName(shard), absl::UnavailableError("it has left in good order"),
                     "start it again with the same --shard-id and --data-dir");
    }
  }
  const int64_t never = status.expected_shards - static_cast<int64_t>(status.shards.size());
  if (never > 0) {
    findings.Error(where,
                   absl::UnavailableError(absl::StrCat(never, " of ", status.expected_shards,
                                                       " shards have never registered")),
                   "start them with --coordinator, or start the coordinator with the right "
                   "--shards");
  } else if (alive == status.expected_shards) {
    findings.Ok(where, absl::StrCat("all ", alive, " shards are alive"));
  }
}

std::string BuildName(const std::string& version, const std::string& revision) {
  return absl::StrCat(version, " (", revision, ")");
}

}  // namespace

void JudgeFailure(const std::string& where, const absl::Status& error, Findings& findings) {
  if (absl::IsPermissionDenied(error)) {
    findings.Error(where, error,
                   "use a certificate with the role reader or operator (docs/operate/security.md)");
  } else if (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error)) {
    findings.Error(where, error,
                   "see whether the process runs, its log, and the network and certificates "
                   "between here and there");
  } else {
    findings.Error(where, error, "see the process's log");
  }
}

void JudgeStatus(const std::string& where, const ClusterStatus& status, const Build& mine,
                 Findings& findings) {
  JudgeLives(where, status, findings);
  if (status.version != mine.version || status.revision != mine.revision) {
    findings.Note(where,
                  absl::StrCat("the coordinator is ", BuildName(status.version, status.revision),
                               ", this program ", BuildName(mine.version, mine.revision)));
  }
  if (status.restore_count > 0) {
    findings.Note(where, absl::StrCat("the cluster was taken back to a checkpoint ",
                                      status.restore_count, " times"));
  }
  for (const JobStatus& job : status.jobs) {
    if (job.finished || job.trainers > 0) continue;
    findings.Warn(
        absl::StrCat("job ", job.job), "it is not finished, and nobody trains it",
        absl::StrCat("start a trainer: dslide train --cluster HOST:PORT --job ", job.job));
  }
}

void JudgeShard(const ShardInfo& entry, const absl::StatusOr<ShardServerInfo>& info,
                const ClusterStatus& status, Findings& findings) {
  const std::string where = ShardName(entry);
  if (!info.ok()) return JudgeFailure(where, info.status(), findings);
  if (info->shard != entry.shard || info->generation != entry.generation) {
    findings.Error(where,
                   absl::FailedPreconditionError(absl::StrCat(
                       "who answers there is shard ", info->shard.value(), " of generation ",
                       info->generation, ", the coordinator knows generation ", entry.generation)),
                   "end the older process, or give each shard an address of its own (--advertise)");
    return;
  }
  if (info->version != status.version || info->revision != status.revision) {
    findings.Warn(where,
                  absl::StrCat("it is ", BuildName(info->version, info->revision),
                               ", the coordinator ", BuildName(status.version, status.revision)),
                  "finish the upgrade, or roll it back");
    return;
  }
  findings.Ok(where, absl::StrCat("answers, generation ", info->generation));
}

void JudgeCheckpoints(const std::string& where, const ClusterStatus& status,
                      const absl::StatusOr<std::vector<ClusterCheckpoint>>& committed,
                      Findings& findings) {
  if (!status.checkpoints.has_value()) {
    findings.Warn(where,
                  "the coordinator keeps no cluster checkpoints: nothing can be gone back to",
                  "start it, and the shards, with --data-dir");
    return;
  }
  if (!committed.ok()) {
    findings.Error(where, committed.status(),
                   absl::IsDataLoss(committed.status())
                       ? "put the manifest back from a copy (dslide checkpoint restore --from DIR)"
                       : "ask with a role that may (docs/operate/security.md), or see the log");
    return;
  }
  int64_t whole = 0;
  for (const ClusterCheckpoint& checkpoint : *committed) {
    if (checkpoint.damage.empty()) {
      ++whole;
      continue;
    }
    findings.Error(absl::StrCat("cluster checkpoint ", checkpoint.checkpoint_id),
                   absl::DataLossError(checkpoint.damage),
                   "look after that disk; take a new one (dslide checkpoint create), or bring this "
                   "one back from a copy (restore --from DIR)");
  }
  const CheckpointStatus& now = *status.checkpoints;
  if (whole > 0) {
    findings.Ok(where, absl::StrCat(whole, " cluster checkpoints, the newest is ",
                                    committed->front().checkpoint_id));
  } else if (!status.models.empty()) {
    findings.Warn(where, "there are models, and no whole cluster checkpoint to go back to",
                  "dslide checkpoint create");
  }
  const absl::Duration late = std::max(kLateAtLeast, kLateIntervals * now.interval);
  const bool works = std::any_of(status.jobs.begin(), status.jobs.end(),
                                 [](const auto& job) { return !job.finished && job.trainers > 0; });
  if (now.interval > absl::ZeroDuration() && works && now.age > late) {
    findings.Warn(where,
                  absl::StrCat("the newest cluster checkpoint is ", Rounded(now.age),
                               " old, one is due every ", Rounded(now.interval)),
                  "see the coordinator's log for why none is committed");
  }
  if (now.failures > 0) {
    findings.Warn(where,
                  absl::StrCat(now.failures,
                               " cluster checkpoints were begun and not committed "
                               "since the coordinator was started"),
                  "see its log: a full disk, a shard without --data-dir, one that still writes");
  }
  if (now.scrub_interval == absl::ZeroDuration()) {
    findings.Note(where, "cluster checkpoints are not verified by themselves",
                  "start the coordinator with --checkpoint-scrub-interval 24h");
  } else if (whole > 0 && now.scrub_age > 2 * now.scrub_interval + kLateAtLeast) {
    findings.Warn(
        where, absl::StrCat("cluster checkpoints were not verified for ", Rounded(now.scrub_age)),
        "see the coordinator's log for the shard that does not answer");
  }
}

void JudgePage(const std::string& where, const MetricsText& page, absl::Time now,
               Findings& findings) {
  const auto at = [&page](const char* name) { return page.Sum(name); };
  const double logs = at("dslide_coordinator_shard_log_failures_total");
  if (logs > 0) {
    findings.Warn(
        where,
        absl::StrFormat("shards ended %.0f times because their command log had failed", logs),
        "see to their disks (docs/operate/runbook.md, DslideLogFailed)");
  }
  const double full = page.Sum("dslide_shard_refused_requests_total", {{"reason", "DISK_FULL"}});
  if (full > 0) {
    findings.Warn(where,
                  absl::StrFormat("%.0f updates were refused because its disk was full", full),
                  "free space or grow the volume; it goes on by itself");
  }
  if (at("dslide_shard_acked_loss_total") > 0) {
    findings.Error(where,
                   absl::DataLossError(
                       absl::StrFormat("it does not remember %.0f updates that it had confirmed",
                                       at("dslide_shard_acked_loss_total"))),
                   "take the cluster back to a checkpoint (docs/operate/runbook.md, "
                   "DslideAckedLoss)");
  }
  if (at("dslide_shard_recovery_damaged_images") > 0) {
    findings.Warn(where, "it found a damaged image when it was started, and used the older one",
                  "look after its disk before the older one goes, too");
  }
  if (at("dslide_coordinator_checkpoints_damaged") > 0) {
    findings.Error(where, absl::DataLossError("committed cluster checkpoints are damaged"),
                   "dslide checkpoint list says which");
  }
  if (page.Has("dslide_server_ready") && at("dslide_server_ready") == 0) {
    findings.Error(where, absl::UnavailableError("it says that it is not ready"),
                   absl::StrCat("curl http://", where, "/readyz says why"));
  }
  if (at("dslide_server_insecure") > 0) {
    findings.Warn(where, "it accepts plaintext from other machines",
                  "give it certificates (docs/operate/security.md)");
  }
  constexpr char kExpiry[] = "dslide_tls_certificate_expiry_timestamp_seconds";
  if (page.Has(kExpiry) && std::isfinite(at(kExpiry))) {
    JudgeExpiry(where, absl::FromUnixSeconds(static_cast<int64_t>(at(kExpiry))), now, findings);
  }
}

void JudgeExpiry(const std::string& where, absl::Time expires, absl::Time now, Findings& findings) {
  if (expires == absl::InfiniteFuture()) return;
  constexpr char kRemedy[] =
      "put a renewed certificate in the place of its file; it is read again "
      "without a restart";
  const absl::Duration left = expires - now;
  if (left <= absl::ZeroDuration()) {
    findings.Error(where,
                   absl::UnavailableError(
                       absl::StrCat("its certificate has ended on ",
                                    absl::FormatTime("%Y-%m-%d", expires, absl::UTCTimeZone()))),
                   kRemedy);
  } else if (left < kVerySoon) {
    findings.Warn(where, absl::StrCat("its certificate ends in ", Rounded(left)), kRemedy);
  } else if (left < kSoon) {
    findings.Note(where, absl::StrFormat("its certificate ends in %d days", left / absl::Hours(24)),
                  kRemedy);
  } else {
    findings.Ok(
        where, absl::StrFormat("its certificate is good for %d more days", left / absl::Hours(24)));
  }
}

}  // namespace dslide::cli
