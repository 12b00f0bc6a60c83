#include "services/shard/storage/storage_options.h"

#include <rocksdb/env.h>
#include <rocksdb/table.h>

#include <cstdarg>
#include <cstdio>
#include <memory>

#include "core/system/log.h"

namespace dslide::shard {
namespace {

class ForwardingLogger final : public rocksdb::Logger {
 public:
  ForwardingLogger() : rocksdb::Logger(rocksdb::WARN_LEVEL) {}

  using rocksdb::Logger::Logv;
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    const LogLevel ours = level == rocksdb::FATAL_LEVEL ? LogLevel::kError : LogLevel::kDebug;
    // A header is of no level, and says only with what a database was opened.
    if (level < GetInfoLogLevel() || level > rocksdb::FATAL_LEVEL || !LogEnabled(ours)) return;
    char text[kMaxLogValueBytes];
    std::vsnprintf(text, sizeof(text), format, arguments);
    Log(ours, "RocksDB", {{"message", text}});
  }
};

}  // namespace

rocksdb::Options StorageOptions() {
  rocksdb::Options options;
  options.paranoid_checks = true;
  options.compression = rocksdb::kNoCompression;
  // Keys are written in order and dropped in order: nothing is to be merged.
  options.disable_auto_compactions = true;
  options.max_background_jobs = 1;
  options.info_log = std::make_shared<ForwardingLogger>();  // shared with the database
  options.info_log_level = rocksdb::WARN_LEVEL;
  rocksdb::BlockBasedTableOptions table;
  // Of 64 bits, and not a third of the work: RocksDB takes a processor's CRC instructions only
  // where it was built for such processors, which those of distributions are not.
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  table.block_size = 64 << 10;
  table.no_block_cache = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace dslide::shard
