// What the databases of a shard have in common. Internal to the shard's storage.

#pragma once

#include <rocksdb/options.h>

namespace dslide::shard {

// Paranoid, uncompressed, never compacted by itself; read and written in order, so without a cache.
// Warnings go to this process's log: RocksDB's default is a file beside the data, which on a full
// disk its debug build answers by aborting.
rocksdb::Options StorageOptions();

}  // namespace dslide::shard
