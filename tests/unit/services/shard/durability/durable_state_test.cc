// A shard that was restored from an image and its log is the shard that never stopped.

#include "services/shard/durability/durable_state.h"

#include <gmock/gmock.h>

#include <deque>
#include <functional>
#include <optional>
#include <set>

#include "core/wire/log/logged_command.h"
#include "services/shard/durability/log_directory.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/core_state.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/log/logged_bytes.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Everything that a client could notice, and what the images hold.
std::string Everything(const ShardCore& core) {
  std::string all =
      absl::StrCat(core.Digest(), "/", core.contexts().bytes(), "/", EncodeCoreState(core));
  for (const auto& [name, model] : core.models()) all += EncodeHashes(HashesOf(*model));
  return all;
}

class DurableStateTest : public LogDirectoryTest {
 protected:
  static std::unique_ptr<ShardCore> FreshCore() {
    return std::make_unique<ShardCore>(SampleOptions());
  }
  static CoreLimits Limits() {
    CoreLimits limits = SampleOptions();
    // Small enough to be reached: clients are given up, contexts and answers refused.
    limits.clients.max_clients = 4;
    limits.clients.idle_commands = 20;
    limits.clients.window = 6;
    limits.context_bytes = 20'000;
    return limits;
  }

  void Create() {
    core_ = FreshCore();
    auto made = LogDirectory::Create(root_.string(), options_, *core_);
    ASSERT_TRUE(made.ok()) << made.status();
    state_ = *std::move(made);
    ASSERT_TRUE(state_->Begin({}, Limits(), *core_).ok());
  }
  // Appends and applies, as the sequencer does.
  Answer Do(const Command& command) {
    const wire::LoggedCommand logged = LogOf(command);
    EXPECT_TRUE(
        state_->log().Append(static_cast<uint8_t>(logged.kind), logged.payload).status().ok());
    std::string payload;
    for (const absl::string_view piece : logged.payload) payload.append(piece.data(), piece.size());
    auto decoded = wire::DecodeLogged(logged.kind, payload);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return core_->Apply(*std::move(decoded));
  }
  absl::Status Restore(std::unique_ptr<ShardCore>* core) {
    auto restored = LogDirectory::Restore(root_.string(), options_, FreshCore, core);
    if (!restored.ok()) return restored.status();
    restored_ = *std::move(restored);
    return absl::OkStatus();
  }
  // Leaves the disk as a crash of the process does.
  void Crash() {
    ASSERT_TRUE(state_->log().Sync().ok());
    state_ = nullptr;
  }
  fs::path Directory() const { return root_ / "command_log"; }
  fs::path Image(int number) const {
    std::set<fs::path> images;
    for (const auto& entry : fs::directory_iterator(Directory() / "images")) {
      images.insert(entry.path());
    }
    return *std::next(images.rbegin(), number);
  }

  LogDirectoryOptions options_;
  std::unique_ptr<ShardCore> core_;
  std::unique_ptr<DurableState> state_;
  std::unique_ptr<DurableState> restored_;
};

// One command of a random client; some of them wrong, some repeated.
class RandomClients {
 public:
  explicit RandomClients(uint64_t seed) : rng_(seed) {
    for (uint8_t number = 1; number <= 6; ++number) clients_.emplace_back(number, seed);
    for (Client& client : clients_) client.trainer.set_keep(3);
  }

  Command Next() {
    Client& client = clients_[rng_.NextBelow(clients_.size())];
    SampleTrainer& trainer = client.trainer;
    switch (rng_.NextBelow(24)) {
      case 0:
        return trainer.Hello();
      case 1:
        return rng_.NextBelow(6) == 0 ? Command(trainer.CloseClient()) : Command(trainer.Hello());
      case 2:
        return rng_.NextBelow(4) == 0 ? Command(DropModelCommand{.model = "m"})
                                      : Command(SampleCreate());
      case 3:
      case 4:
        return SampleCreate();
      case 5:
        return Keep(client, trainer.Scatter(ScatterMode::kGradient));
      case 6:
        return Keep(client, trainer.Scatter(ScatterMode::kAssign));
      case 7:
        return Keep(client, trainer.Scatter(ScatterMode::kAdd, "input"));
      case 8:
        return client.last.has_value() ? *client.last : Command(trainer.Hello());
      case 9:
        return Keep(client, RefusedCommand{.envelope = trainer.Next(),
                                           .refusal = absl::InvalidArgumentError("bad")});
      case 10:
        return Keep(client, Step(client, trainer.DenseScatter()));
      case 11:
        return Keep(client, Step(client, DenseGatherOp{.table = "hidden"}));
      case 12:
        ++client.step;
        return trainer.Hello();
      case 13:
      case 14:
        ++client.step;
        return Keep(client, Step(client, trainer.EmbedForward()));
      case 15:
      case 16:
        return Keep(client, Step(client, trainer.EmbedBackward()));
      case 17:
      case 18:
      case 19:
        return Keep(client, Step(client, trainer.HeadForward()));
      default:
        return Keep(client, Step(client, trainer.HeadBackward()));
    }
  }
  // What the answer says about the client's numbers.
  void Learn(const Command& command, const Answer& answer) {
    for (Client& client : clients_) {
      const Envelope* const envelope = EnvelopeOf(command);
      const auto* const hello = std::get_if<HelloReply>(&answer.reply->body);
      if (hello != nullptr && std::get<HelloCommand>(command).client == client.trainer.client()) {
        while (client.trainer.sequence() + 1 > hello->next_sequence) client.trainer.TakeBack();
      }
      const absl::StatusCode code = answer.reply->status.code();
      if (envelope != nullptr && envelope->client == client.trainer.client() &&
          envelope->sequence == client.trainer.sequence() && code != absl::StatusCode::kOk &&
          code != absl::StatusCode::kInvalidArgument) {
        client.trainer.TakeBack();
      }
    }
  }

 private:
  struct Client {
    Client(uint8_t number, uint64_t seed) : trainer(number, seed) {}
    SampleTrainer trainer;
    int64_t step = 1;
    std::optional<Command> last;
  };

  static const Envelope* EnvelopeOf(const Command& command) {
    if (const auto* step = std::get_if<StepCommand>(&command)) return &step->envelope;
    if (const auto* scatter = std::get_if<ScatterCommand>(&command)) return &scatter->envelope;
    if (const auto* refused = std::get_if<RefusedCommand>(&command)) return &refused->envelope;
    return nullptr;
  }
  Command Step(Client& client, StepOp op) {
    return client.trainer.Step(std::move(op), client.step, std::max<int64_t>(0, client.step - 2));
  }
  static Command Keep(Client& client, Command command) {
    client.last = command;
    return command;
  }

  CounterRng rng_;
  std::deque<Client> clients_;
};

TEST_F(DurableStateTest, ARestoredShardIsTheOneThatNeverStopped) {
  int64_t applied = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SetUp();
    Create();
    Do(SetOwnershipCommand{.shard = ShardId(0), .generation = 0});
    Do(SampleCreate());
    RandomClients clients(seed);
    CounterRng choice(DeriveKey(seed, 99));
    int images = 0;
    for (int i = 0; i < 500; ++i) {
      const Command command = clients.Next();
      clients.Learn(command, Do(command));
      if (choice.NextBelow(80) != 0) continue;
      ASSERT_TRUE(state_->TakeImage(*core_).ok());
      ++images;
    }
    applied += core_->mutations();
    Crash();
    std::unique_ptr<ShardCore> restored;
    const absl::Status status = Restore(&restored);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(restored_->recovery().image_lsn > 0, images > 0);
    EXPECT_EQ(Everything(*restored), Everything(*core_));
    // And it goes on the same way: hash tables, answers kept, contexts, budgets.
    ASSERT_TRUE(restored_->Begin({}, Limits(), *restored).ok());
    for (int i = 0; i < 200; ++i) {
      const Command command = clients.Next();
      const Answer one = core_->Apply(command);
      const Answer two = restored->Apply(command);
      ASSERT_EQ(one.reply->status, two.reply->status) << i;
      ASSERT_EQ(one.repeated, two.repeated) << i;
      clients.Learn(command, one);
      const auto* const head = std::get_if<HeadForwardReply>(&one.reply->body);
      if (head == nullptr) continue;
      const auto& other = std::get<HeadForwardReply>(two.reply->body);
      ASSERT_EQ(head->output.active_pairs, other.output.active_pairs) << i;
      ASSERT_EQ(head->output.exp_sums, other.output.exp_sums) << i;
    }
    EXPECT_EQ(Everything(*restored), Everything(*core_));
    restored_ = nullptr;
  }
  EXPECT_GT(applied, 500) << "the commands must do something";
}

TEST_F(DurableStateTest, AnOlderImageAndMoreOfTheLogGiveTheSameState) {
  Create();
  Do(SampleCreate());
  RandomClients clients(3);
  for (int i = 0; i < 200; ++i) {
    const Command command = clients.Next();
    clients.Learn(command, Do(command));
    if (i % 50 == 20) {
      ASSERT_TRUE(state_->TakeImage(*core_).ok());
    }
  }
  Crash();
  ASSERT_EQ(std::distance(fs::directory_iterator(Directory() / "images"), {}), 2);
  const std::string state = (Image(0) / "state").string();
  std::string bytes = Read(state);
  bytes[bytes.size() / 2] ^= 1;
  Write(state, bytes);
  std::unique_ptr<ShardCore> restored;
  ASSERT_TRUE(Restore(&restored).ok());
  EXPECT_EQ(restored_->recovery().damaged_images, 1);
  EXPECT_EQ(Everything(*restored), Everything(*core_));
  // With none left, nothing is made up.
  restored_ = nullptr;
  fs::remove(Image(0) / "state");
  const absl::Status none = Restore(&restored);
  EXPECT_TRUE(absl::IsDataLoss(none)) << none;
}

// The log leads from an image to the next one, but not to rows that came from elsewhere.
TEST_F(DurableStateTest, NoImageFromBeforeTheRowsWereReplacedIsEverUsed) {
  Create();
  Do(SampleCreate());
  SampleTrainer trainer;
  Do(trainer.Hello());
  ASSERT_TRUE(state_->TakeImage(*core_).ok());
  // Nobody logs this, as nobody logs going back to a cluster checkpoint.
  ASSERT_TRUE(core_->Apply(trainer.Scatter(ScatterMode::kAdd)).reply->status.ok());
  // A crash may come before the image from before is removed.
  const fs::path before = Image(0);
  Copy((fs::path("command_log/images") / before.filename()).string(), "before");
  ASSERT_TRUE(state_->ForceImage(*core_).ok());
  ASSERT_FALSE(fs::exists(before));
  Do(trainer.Scatter(ScatterMode::kAdd));
  Crash();
  Copy("before", (fs::path("command_log/images") / before.filename()).string());
  Copy("command_log", "kept");
  std::unique_ptr<ShardCore> restored;
  ASSERT_TRUE(Restore(&restored).ok());
  EXPECT_EQ(Everything(*restored), Everything(*core_));
  restored_ = nullptr;
  Copy("kept", "command_log");
  const std::string state = (Image(0) / "state").string();
  std::string bytes = Read(state);
  bytes[bytes.size() / 2] ^= 1;
  Write(state, bytes);
  const absl::Status refused = Restore(&restored);
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
}

TEST_F(DurableStateTest, AMissingPartIsRefusedByName) {
  Create();
  Do(SampleCreate());
  ASSERT_TRUE(state_->TakeImage(*core_).ok());
  Do(SampleTrainer().Hello());
  Crash();
  Copy("command_log", "kept");
  std::unique_ptr<ShardCore> restored;
  for (const char* part : {"images", "high-water", "records", "records/CURRENT"}) {
    fs::remove_all(Directory() / part);
    const absl::Status status = Restore(&restored);
    EXPECT_TRUE(absl::IsDataLoss(status)) << part << ": " << status;
    Copy("kept", "command_log");
  }
  // The log alone was put back to an earlier day.
  fs::remove_all(Directory() / "records");
  fs::remove(Directory() / "high-water");
  ASSERT_TRUE(CommandLog::Create(Directory().string(), {}).ok());
  const absl::Status older = Restore(&restored);
  EXPECT_TRUE(absl::IsDataLoss(older));
  EXPECT_THAT(older.message(), HasSubstr("the log ends at record 0, the image at"));
  Copy("kept", "command_log");
  EXPECT_TRUE(Restore(&restored).ok());
  EXPECT_EQ(Everything(*restored), Everything(*core_));
}

TEST_F(DurableStateTest, NoFlippedByteOfAnImageGivesAnotherState) {
  Create();
  Do(SampleCreate());
  RandomClients clients(5);
  for (int i = 0; i < 60; ++i) {
    const Command command = clients.Next();
    clients.Learn(command, Do(command));
  }
  ASSERT_TRUE(state_->TakeImage(*core_).ok());
  Crash();
  const std::string good_state = Everything(*core_);
  CounterRng rng(11);
  int refused = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Image(0))) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    const std::string path = entry.path().string();
    const std::string good = Read(path);
    for (int i = 0; i < 12; ++i) {
      std::string bad = good;
      const size_t at = rng.NextBelow(bad.size());
      bad[at] = static_cast<char>(bad[at] ^ (1 << rng.NextBelow(8)));
      Write(path, bad);
      const std::unique_ptr<ShardCore> core = FreshCore();
      const absl::Status loaded = LoadImage(Image(0).string(), *core).status();
      if (loaded.ok()) {
        ASSERT_EQ(Everything(*core), good_state) << path << ", byte " << at;
      } else {
        ASSERT_TRUE(absl::IsDataLoss(loaded)) << path << ", byte " << at << ": " << loaded;
        ++refused;
      }
    }
    Write(path, good);
  }
  EXPECT_GT(refused, 12);
}

TEST_F(DurableStateTest, ImagesAreTakenAsTheLogGrows) {
  options_.durability.image_every_bytes = 2000;
  Create();
  Do(SampleCreate());
  SampleTrainer trainer;
  Do(trainer.Hello());
  for (int i = 0; i < 40; ++i) {
    Do(trainer.Scatter(ScatterMode::kAdd));
    state_->MaybeTakeImage(*core_);
    // Several commands while an image is written.
    if (i % 4 == 3) {
      ASSERT_TRUE(state_->EndImage().ok());
    }
  }
  EXPECT_GT(Image(0).filename().string(), Image(1).filename().string());
  EXPECT_NE(Image(1).filename().string(), LogLabel({}));
  Crash();
  std::unique_ptr<ShardCore> restored;
  ASSERT_TRUE(Restore(&restored).ok());
  EXPECT_LT(restored_->recovery().replayed, 20);
  EXPECT_EQ(Everything(*restored), Everything(*core_));
}

// An image settles hash tables. Between builds that changes nothing, and waits for nothing.
TEST_F(DurableStateTest, ImagesAreTakenBetweenBuildsOfHashTables) {
  options_.durability.image_every_bytes = 2000;
  Create();
  ModelSpec spec = SampleSpec();
  TableSpec& head = spec.tables[2];
  head.rows = 120'000;  // so many that tables are sorted in the background
  head.head.hash.num_tables = 150;
  head.head.hash.rebuild_every_steps = 8;
  Do(SampleCreate(spec));
  SampleTrainer trainer;
  Do(trainer.Hello());
  int images = 0;
  int while_building = 0;
  for (int i = 0; i < 60; ++i) {
    const Answer answer = Do(trainer.Scatter(ScatterMode::kGradient));
    ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    const bool building = core_->building();
    const std::string before = Image(0);
    state_->MaybeTakeImage(*core_);
    ASSERT_TRUE(state_->EndImage().ok());
    images += Image(0) != before;
    while_building += building;
    EXPECT_FALSE(building && Image(0) != before) << i;
  }
  EXPECT_GT(images, 4);
  EXPECT_GT(while_building, 20);
}

}  // namespace
}  // namespace dslide::shard
