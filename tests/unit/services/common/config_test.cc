#include "services/common/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

struct Settings {
  std::string listen = "default";
  bool insecure = false;
  int64_t shards = 1;
  double weight = 1.0;
  std::string form = "text";
  int64_t memory = 1 << 20;
  absl::Duration lease_timeout = absl::Seconds(30);
};

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override { path_ = absl::StrCat(::testing::TempDir(), "config_test.", getpid()); }
  void TearDown() override { std::remove(path_.c_str()); }

  void WriteFile(const std::string& text) { std::ofstream(path_) << text; }

  // Parses into settings_; the exit code, or -1 when the binary would run. What was printed is in
  // out_ and err_.
  int Parse(std::vector<std::string> flags) {
    settings_ = Settings();
    ConfigParser parser({.binary = "dslide-test", .description = "A test.", .footer = "Examples."});
    parser.AddString("listen", &settings_.listen, "Address");
    parser.AddBool("insecure", &settings_.insecure, "Plaintext");
    parser.AddInt("shards", &settings_.shards, 1, 64, "Shards");
    parser.AddDouble("weight", &settings_.weight, 0.0, 10.0, "Weight");
    parser.AddByteSize("memory", &settings_.memory, 0, int64_t{1} << 40, "Memory");
    parser.AddDuration("lease-timeout", &settings_.lease_timeout, absl::Seconds(1), absl::Hours(1),
                       "Timeout");
    parser.AddWord("form", &settings_.form, {"text", "json"}, "Form");
    parser.SetValidator([this] { return validation_; });
    std::vector<const char*> argv = {"dslide-test"};
    for (const std::string& flag : flags) argv.push_back(flag.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const auto code =
        parser.Parse(static_cast<int>(argv.size()), argv.data(), [this](const char* name) {
          const auto found = environment_.find(name);
          return found == environment_.end() ? nullptr : found->second.c_str();
        });
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    printed_ = parser.Print();
    return code.value_or(-1);
  }

  std::string path_;
  std::map<std::string, std::string> environment_;
  Settings settings_;
  absl::Status validation_;
  std::string out_, err_, printed_;
};

TEST_F(ConfigTest, DefaultsStandWithoutAnySource) {
  EXPECT_EQ(Parse({}), -1);
  EXPECT_EQ(settings_.listen, "default");
  EXPECT_EQ(settings_.lease_timeout, absl::Seconds(30));
}

TEST_F(ConfigTest, OnlyTheWordsThatThereAreAreTaken) {
  EXPECT_EQ(Parse({"--form=json"}), -1);
  EXPECT_EQ(settings_.form, "json");
  EXPECT_EQ(Parse({"--form=jsn"}), 2);
  EXPECT_THAT(err_, HasSubstr("--form: \"jsn\" is none of text, json"));
}

TEST_F(ConfigTest, AFlagBeatsTheEnvironmentWhichBeatsTheFile) {
  WriteFile("listen = file\nshards = 2\nweight = 0.5\n");
  EXPECT_EQ(Parse({"--config", path_}), -1);
  EXPECT_EQ(settings_.listen, "file");
  EXPECT_EQ(settings_.shards, 2);
  environment_ = {{"DSLIDE_LISTEN", "env"}, {"DSLIDE_SHARDS", "3"}};
  EXPECT_EQ(Parse({"--config", path_}), -1);
  EXPECT_EQ(settings_.listen, "env");
  EXPECT_EQ(settings_.shards, 3);
  EXPECT_EQ(settings_.weight, 0.5);
  EXPECT_EQ(Parse({"--config", path_, "--listen", "flag"}), -1);
  EXPECT_EQ(settings_.listen, "flag");
  EXPECT_EQ(settings_.shards, 3);
  EXPECT_EQ(settings_.weight, 0.5);
}

TEST_F(ConfigTest, TheFileMayBeNamedByTheEnvironment) {
  WriteFile("shards = 7\n");
  environment_ = {{"DSLIDE_CONFIG", path_}};
  EXPECT_EQ(Parse({}), -1);
  EXPECT_EQ(settings_.shards, 7);
}

TEST_F(ConfigTest, SettingsHaveUnits) {
  EXPECT_EQ(Parse({"--memory", "64MiB", "--lease-timeout=1m30s", "--insecure"}), -1);
  EXPECT_EQ(settings_.memory, 64 << 20);
  EXPECT_EQ(settings_.lease_timeout, absl::Seconds(90));
  EXPECT_TRUE(settings_.insecure);
}

TEST_F(ConfigTest, ASwitchCanBeTurnedOffAgain) {
  environment_ = {{"DSLIDE_INSECURE", "true"}};
  EXPECT_EQ(Parse({}), -1);
  EXPECT_TRUE(settings_.insecure);
  EXPECT_EQ(Parse({"--insecure=false"}), -1);
  EXPECT_FALSE(settings_.insecure);
}

TEST_F(ConfigTest, SectionsAndUnderscoresSpellTheSameName) {
  WriteFile("[lease]\ntimeout = \"5s\"  # five\n");
  EXPECT_EQ(Parse({"--config", path_}), -1);
  EXPECT_EQ(settings_.lease_timeout, absl::Seconds(5));
  WriteFile("lease_timeout = 6s\n");
  EXPECT_EQ(Parse({"--config", path_}), -1);
  EXPECT_EQ(settings_.lease_timeout, absl::Seconds(6));
  WriteFile("lease.timeout=7s");
  EXPECT_EQ(Parse({"--config", path_}), -1);
  EXPECT_EQ(settings_.lease_timeout, absl::Seconds(7));
}

TEST_F(ConfigTest, UnknownKeysAreErrorsThatNameLineAndNearestKey) {
  WriteFile("# comment\n\nshrads = 4\n");
  EXPECT_EQ(Parse({"--config", path_}), 2);
  EXPECT_THAT(err_, HasSubstr(absl::StrCat(path_, ":3: unknown key shrads; did you mean shards?")));
}

TEST_F(ConfigTest, UnknownFlagsAreErrors) {
  EXPECT_EQ(Parse({"--lissten=x"}), 2);
  EXPECT_THAT(err_, HasSubstr("unknown argument --lissten=x; did you mean listen?"));
  EXPECT_EQ(Parse({"stray"}), 2);
  EXPECT_THAT(err_, HasSubstr("unknown argument stray"));
}

TEST_F(ConfigTest, OtherFaultsOfAFileAreErrors) {
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {"shards = 4\nshards = 5\n", ":2: shards was set already in line 1"},
           {"shards = 4\n[x]\n", ""},
           {"shards\n", ":1: expected key = value"},
           {"[lease\ntimeout = 5s\n", ":1: expected [section]"},
           {"listen = \"open\n", ":1: malformed value"},
           {"listen = \"a\" b\n", ":1: malformed value"},
           {"shards = four\n", ":1: shards: \"four\" is not a whole number"},
           {"shards = 65\n", ":1: shards: 65 is outside [1, 64]"},
           {"memory = 5 parsecs\n", "not a size"},
           {"lease-timeout = 5\n", "not a duration"},
           {"insecure = maybe\n", "neither true nor false"}}) {
    WriteFile(text);
    EXPECT_EQ(Parse({"--config", path_}), message.empty() ? -1 : 2) << text;
    EXPECT_THAT(err_, HasSubstr(message)) << text;
  }
}

TEST_F(ConfigTest, AMissingFileAndADirectoryAreErrors) {
  EXPECT_EQ(Parse({"--config", "/no/such/file"}), 2);
  EXPECT_THAT(err_, HasSubstr("cannot read the configuration file /no/such/file"));
  EXPECT_EQ(Parse({"--config", ::testing::TempDir()}), 2);
}

TEST_F(ConfigTest, BadEnvironmentAndFlagsAreNamed) {
  environment_ = {{"DSLIDE_SHARDS", "0"}};
  EXPECT_EQ(Parse({}), 2);
  EXPECT_THAT(err_, HasSubstr("DSLIDE_SHARDS: 0 is outside [1, 64]"));
  environment_.clear();
  EXPECT_EQ(Parse({"--shards", "0"}), 2);
  EXPECT_THAT(err_, HasSubstr("dslide-test: --shards: 0 is outside [1, 64]"));
  EXPECT_EQ(Parse({"--weight", "nan"}), 2);
  EXPECT_THAT(err_, HasSubstr("--weight"));
}

TEST_F(ConfigTest, ForeignVariablesAreIgnored) {
  // Kubernetes sets such for a service named dslide.
  environment_ = {{"DSLIDE_PORT", "tcp://10.0.0.1:7000"}, {"DSLIDE_SERVICE_HOST", "10.0.0.1"}};
  EXPECT_EQ(Parse({}), -1);
}

TEST_F(ConfigTest, CheckConfigExitsWithoutRunning) {
  EXPECT_EQ(Parse({"--check-config"}), 0);
  validation_ = absl::InvalidArgumentError("listen and admin are equal");
  EXPECT_EQ(Parse({"--check-config"}), 2);
  EXPECT_THAT(err_, HasSubstr("listen and admin are equal"));
}

TEST_F(ConfigTest, ThePrintedConfigReadsBackToTheSame) {
  EXPECT_EQ(Parse({"--print-config", "--listen", "a \"quoted\" \\ # name", "--shards=9",
                   "--memory=3MiB"}),
            0);
  EXPECT_THAT(out_, HasSubstr("shards = \"9\"  # from --shards\n"));
  WriteFile(out_);
  EXPECT_EQ(Parse({"--config", path_}), -1);
  EXPECT_EQ(settings_.listen, "a \"quoted\" \\ # name");
  EXPECT_EQ(settings_.shards, 9);
  EXPECT_EQ(settings_.memory, 3 << 20);
}

TEST_F(ConfigTest, HelpAndVersionExitWithSuccess) {
  EXPECT_EQ(Parse({"--help"}), 0);
  for (const char* part : {"--lease-timeout", "DSLIDE_LEASE_TIMEOUT", "Examples.", "30s"}) {
    EXPECT_THAT(out_, HasSubstr(part));
  }
  EXPECT_EQ(Parse({"--version"}), 0);
  EXPECT_THAT(out_, HasSubstr("dslide-test 0."));
}

TEST_F(ConfigTest, AValueMayBeEmpty) {
  EXPECT_EQ(Parse({"--listen="}), -1);
  EXPECT_EQ(settings_.listen, "");
  EXPECT_EQ(Parse({"--listen", ""}), -1);
  EXPECT_EQ(settings_.listen, "");
  EXPECT_EQ(Parse({"--listen"}), 2);
  EXPECT_EQ(Parse({"--shards="}), 2);
}

TEST_F(ConfigTest, AnEmptyVariableIsUnsetAndBlanksAroundAValueAreNoPartOfIt) {
  environment_ = {{"DSLIDE_LISTEN", ""},
                  {"DSLIDE_SHARDS", ""},
                  {"DSLIDE_MEMORY", ""},
                  {"DSLIDE_INSECURE", ""},
                  {"DSLIDE_FORM", " json "}};
  EXPECT_EQ(Parse({}), -1) << err_;
  EXPECT_EQ(settings_.listen, Settings().listen);
  EXPECT_EQ(settings_.shards, 1);
  EXPECT_EQ(settings_.form, "json");
}

TEST_F(ConfigTest, TheLastOfRepeatedFlagsCounts) {
  EXPECT_EQ(Parse({"--shards=2", "--shards=3"}), -1);
  EXPECT_EQ(settings_.shards, 3);
}

}  // namespace
}  // namespace dslide
