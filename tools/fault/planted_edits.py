"""The planted bugs: each breaks one promise on purpose, and names the test that must notice.

A bug is a few edits of the sources: a piece of code that must occur exactly once in its file, and
what comes in its place. White space does not count when the piece is looked for, so that formatting
moves nothing; where the code itself has changed, the edit no longer applies, which is a failure of
tests/fault/planted_bugs_test.py: the bug has to be planted anew.
"""

import dataclasses
import re


class EditError(Exception):
    """An edit does not fit the sources any more."""


@dataclasses.dataclass(frozen=True)
class Edit:
    path: str  # from the root of the tree
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The text with the edit; EditError unless `old` occurs exactly once in it."""
        words = re.findall(r"\w+|[^\w\s]", self.old)
        found = list(re.finditer(r"\s*".join(map(re.escape, words)), text))
        if len(found) != 1:
            raise EditError(f"{self.path}: this occurs {len(found)} times and must occur once; "
                            f"plant the bug anew:\n{self.old.strip()}")
        begin, end = found[0].span()
        return text[:begin] + self.new.strip() + text[end:]


@dataclasses.dataclass(frozen=True)
class Plant:
    name: str
    bug: str  # what is wrong with it, in a sentence
    edits: tuple[Edit, ...]
    target: str  # the test binary
    test: str  # as GoogleTest filters name it; it must fail with the bug and pass without


PLANTS = (
    Plant(
        "ack-before-sync",
        "In the mode `log`, an update is confirmed before its record is on the disk.",
        (Edit("services/shard/sequencer/sequencer.cc",
              "const uint64_t lsn = log_.answers_wait ? log_.log->appended() : 0;",
              "const uint64_t lsn = 0;"),),
        "service_tests", "SequencerLogTest.AnswersWaitUntilWhatTheyShowIsDurable"),
    Plant(
        "rename-before-fsync",
        "A file gets its name before its content is on the disk: after a loss of power it may be "
        "empty.",
        (Edit("services/common/files/durable_files.cc",
              "RETURN_IF_ERROR(Rename(fresh, path));", ""),
         Edit("services/common/files/durable_files.cc",
              "const absl::Status written = WriteAll(fd, content, fresh);",
              "RETURN_IF_ERROR(Rename(fresh, path));\n"
              "  const absl::Status written = WriteAll(fd, content, fresh);")),
        "service_tests",
        "DurableFilesTest.AFileIsSyncedBeforeItHasItsNameAndTheNameAfterwards"),
    Plant(
        "dedup-not-in-checkpoint",
        "Images hold the rows without the clients: after a restart a repeated update is applied "
        "again.",
        (Edit("services/shard/state/core_state.cc",
              "WriteClients(out, core.clients());",
              "WriteClients(out, ClientTable(core.limits().clients));"),),
        "service_tests", "DurableStateTest.ARestoredShardIsTheOneThatNeverStopped"),
    Plant(
        "hashes-not-restored",
        "A restored shard makes its hash tables from the rows as they are, not from what they were "
        "when they were hashed: it selects other rows than the shard that wrote the image.",
        (Edit("services/shard/image/shard_image.cc",
              "*model, model_head.has_hashes ? &hashes : nullptr,", "*model, nullptr,"),),
        "service_tests", "HashImageTest.ARestoredShardSelectsTheRowsThatItSelectedBefore"),
    Plant(
        "dirty-rows-not-restored",
        "A restored shard forgets which rows have changed since they were hashed: the next build "
        "of its hash tables leaves them where they were.",
        (Edit("services/shard/storage/hash_image.cc",
              "table->dirty = in.Array<uint8_t>();",
              "table->dirty.assign(in.Array<uint8_t>().size(), 0);"),),
        "service_tests", "HashImageTest.ARestoredShardSelectsTheRowsThatItSelectedBefore"),
    Plant(
        "dedup-without-generation",
        "A request that was sent to an earlier owner of the shard is taken for one to this owner: "
        "the client table is asked whatever the generation.",
        (Edit("services/shard/state/shard_core.cc",
              "if (envelope.generation != 0 && envelope.generation != generation_) {",
              "if (false) {"),),
        "service_tests", "ShardClientsTest.OtherGenerationsAreFenced"),
    Plant(
        "manifest-before-shards",
        "A cluster checkpoint is committed before the shards have written their parts.",
        (Edit("services/coordinator/checkpoints/cluster_checkpoints.cc",
              "manifest.duration_us = absl::ToInt64Microseconds(clock_->Now() - start);\n"
              "  RETURN_IF_ERROR(store_->Commit(manifest));", ""),
         Edit("services/coordinator/checkpoints/cluster_checkpoints.cc",
              "status = AwaitParts(map, base.has_value() ? &*base : nullptr, manifest, progress);",
              "RETURN_IF_ERROR(store_->Commit(manifest));\n"
              "  status = AwaitParts(map, base.has_value() ? &*base : nullptr, manifest, progress);"
              )),
        "service_tests", "ClusterCheckpointsTest.NothingIsCommittedWhileAShardWrites"),
    Plant(
        "per-tensor-snapshots",
        "Only the first table of a model is copied as it was at the cut; the others are written as "
        "they are when their turn comes.",
        (Edit("services/shard/image/shard_snapshot.cc",
              "snapshots_[table]->Take(row, record_);",
              "if (table == 0) {\n"
              "      snapshots_[table]->Take(row, record_);\n"
              "    } else {\n"
              "      const auto present = model_.tables()[table].stored().RecordSpan(row);\n"
              "      record_.assign(present.begin(), present.end());\n"
              "    }"),),
        "service_tests", "ShardSnapshotTest.AllTablesAreOfTheInstantAtWhichItWasTaken"),
    Plant(
        "increment-since-last-cut",
        "An incremental checkpoint has what has changed since the last cut, also when that cut's "
        "checkpoint was never committed.",
        (Edit("core/engine/rows/row_changes.cc",
              "return ChangedRows(marks_, end->interval);",
              "return ChangedRows(marks_, static_cast<uint8_t>(interval_ - 1));"),),
        "service_tests", "PartIncrementTest.ACutThatWasNotCommittedLosesNothing"),
    Plant(
        "clip-instead-of-reject",
        "Numbers beyond the model's bound, and those that are none, are made to fit and applied.",
        (Edit("services/shard/state/shard_model.cc",
              "return Refuse(reason::kOverMagnitude, absl::StrCat(field, \" has \", values[i], "
              "\" at position \", i, \", the model's magnitude_bound is \", bound_, "
              "\": lower the learning rate or clip\"));",
              "const_cast<float&>(values[i]) = values[i] > 0 ? bound_ : -bound_;"),
         Edit("services/shard/state/shard_model.cc",
              "return absl::InternalError(\"a vector check and its elements disagree\");",
              "return absl::OkStatus();")),
        "service_tests", "ShardRefusalTest.EveryRefusalLeavesTheDigest"),
    Plant(
        "retry-fsync",
        "A sync that failed is tried again, and its success is believed; the system may have "
        "dropped what it could not write.",
        (Edit("services/shard/log/storage_log.cc",
              "if (sync_file_(wal_) != 0) return SystemError(\"sync\", wal_path_, errno);",
              "if (sync_file_(wal_) != 0 && sync_file_(wal_) != 0) {\n"
              "    return SystemError(\"sync\", wal_path_, errno);\n"
              "  }"),),
        "service_tests", "CommandLogTest.ASyncThatFailedOnceIsNotTriedAgain"),
    Plant(
        "point-in-time-recovery",
        "The command log is taken up to its first damaged record, whatever lies behind it and "
        "whatever had been made durable.",
        (Edit("services/shard/log/storage_log.cc",
              "tail == LogTail::kMustBeWhole ? rocksdb::WALRecoveryMode::kAbsoluteConsistency : "
              "rocksdb::WALRecoveryMode::kPointInTimeRecovery;",
              "rocksdb::WALRecoveryMode::kPointInTimeRecovery;"),
         Edit("services/shard/log/log_scan.cc",
              "scan.extent, WalkLog(**storage, 0, visit));\n"
              "RETURN_IF_ERROR(CheckEnd(scan, RecordsPath(directory)));",
              "scan.extent, WalkLog(**storage, 0, visit));")),
        "service_tests", "LogScanTest.DamageInFrontOfAWholeRecordIsNoTornEnd"),
    Plant(
        "reuse-port",
        "Two servers may listen on one port, and the system deals the clients out between them.",
        (Edit("services/common/server/limited_listener.cc",
              "::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));",
              "::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));\n"
              "  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));"),
         Edit("core/system/listen_address.cc",
              "::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));",
              "::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));\n"
              "    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));"),
         Edit("services/common/server/transport.cc",
              "builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);",
              "builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 1);")),
        "service_tests", "ServerRuntimeTest.ATakenPortIsAnErrorAndNotShared"),
    Plant(
        "no-fence-at-apply",
        "A shard that was replaced goes on with the commands that wait in its queue.",
        (Edit("services/shard/sequencer/sequencer.cc", "if (!fenced_.ok()) return fenced_;", ""),),
        "service_tests", "SequencerTest.AFencedShardAppliesNothingMore"),
    Plant(
        "off-by-one-slice",
        "A shard believes that it holds one row more of a slot than it does.",
        (Edit("core/partition/slot_map.cc",
              "num_rows_ += short_slot_rows_ + (slot < longer_slots ? 1 : 0);",
              "num_rows_ += short_slot_rows_ + (slot <= longer_slots ? 1 : 0);"),),
        "core_tests",
        "*/ShardRowsTest.ShardsTogetherHoldEveryRowOnceAndTranslateBothWays/*"),
)
