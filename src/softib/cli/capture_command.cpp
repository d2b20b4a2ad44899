// softib capture: writes the packets of a running subnet into a file for tshark.
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <csignal>
#include <iostream>
#include <optional>

#include "erf/capture_format.hpp"
#include "program/output_ring.hpp"
#include "program/progress.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/subnet_capture.hpp"
#include "softib/control/protocol.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::program::OutputRing;

namespace {

constexpr std::string_view kCaptureUsage =
    "usage: softib capture [OPTION]... FILE|- [HCA]...\n\n"
    "Writes the packets and MADs of a running subnet to a file, until it is interrupted, for "
    "tshark\n"
    "and Wireshark; -: to the standard output. Each packet is there once, as its sender sends it;\n"
    "with HCAs, what these send and what they receive. Programs go on when they are not read in\n"
    "time, and what is left out is counted.\n\n";

/// How long it takes at most until a signal ends the capture.
constexpr std::chrono::milliseconds kLook{100};
constexpr std::uint64_t kMillion = 1'000'000;

volatile std::sig_atomic_t is_interrupted = 0;

/// An interrupted capture is a complete file.
void end_at_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { is_interrupted = 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  (void)std::signal(SIGPIPE, SIG_IGN);  // a reader may close its pipe early
}

po::options_description capture_options() {
  po::options_description options("Options");
  options.add_options()("write,w", po::value<std::string>()->value_name("FILE"),
                        "another way to name the file")(
      "count,c", po::value<std::uint64_t>()->value_name("NUMBER"), "end after so many packets")(
      "file-size,C", po::value<std::uint64_t>()->value_name("SIZE"),
      "end when the file has so many million bytes")(
      "files,W", po::value<std::uint32_t>()->value_name("NUMBER"),
      "with --file-size: go on in the next of so many files, and replace the oldest")(
      "json,j", "print the numbers of packets at the end as one JSON object");
  return options;
}

/// Owns the output of a capture, and its counts.
class CaptureWriter {
 public:
  CaptureWriter(OutputRing output, std::optional<std::uint64_t> most)
      : output_(std::move(output)), most_(most) {}

  /// Returns whether to go on.
  bool add(const CaptureOrder::Packet& packet) {
    using namespace std::chrono;
    using ipoib::erf::Direction;
    if (!goes_on_) return false;
    record_.clear();
    ipoib::erf::append_record(
        record_, packet.bytes, packet.is_received ? Direction::received : Direction::sent,
        system_clock::time_point(duration_cast<system_clock::duration>(nanoseconds(packet.when))));
    const auto added = output_.add(record_);
    if (!added) return fail_with(added.error());
    if (*added) ++packets_;
    goes_on_ = *added && (!most_ || packets_ < *most_);
    return goes_on_;
  }
  void flush() {
    if (error_) return;
    if (const auto written = output_.flush(); !written) (void)fail_with(written.error());
  }
  [[nodiscard]] bool goes_on() const { return goes_on_; }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }
  /// Why the output takes no more. A reader such as head(1) may close the pipe early; that is no
  /// failure.
  [[nodiscard]] std::optional<ipoib::Error> failure() const {
    return error_ && error_->code != EPIPE ? error_ : std::nullopt;
  }

 private:
  bool fail_with(const ipoib::Error& error) {
    if (!error_) error_ = error;
    goes_on_ = false;
    return false;
  }

  OutputRing output_;
  const std::optional<std::uint64_t> most_;
  std::vector<std::uint8_t> record_;
  std::uint64_t packets_ = 0;
  bool goes_on_ = true;
  std::optional<ipoib::Error> error_;
};

std::string summary(const CaptureWriter& writer, const SubnetCapture& capture) {
  std::string text = std::to_string(writer.packets()) +
                     (writer.packets() == 1 ? " packet, " : " packets, ") +
                     std::to_string(capture.lost()) + " left out";
  if (capture.refused() != 0)
    text += ", " + std::to_string(capture.refused()) + " programs missing";
  return text;
}

int report(const CaptureWriter& writer, const SubnetCapture& capture,
           const fabric::SubnetFolder& folder, bool is_json) {
  if (!is_json) {
    std::cerr << summary(writer, capture) << '\n';
    return kSuccess;
  }
  return print(
      boost::json::serialize(boost::json::object{{"subnet", folder.name()},
                                                 {"packets", writer.packets()},
                                                 {"lost", capture.lost()},
                                                 {"programs_missing", capture.refused()}}) +
      '\n');
}

int run(const fabric::SubnetFolder& folder, SubnetCapture capture, CaptureWriter writer,
        bool is_json) {
  const auto add = [&](const CaptureOrder::Packet& packet) { return writer.add(packet); };
  ipoib::program::Progress progress;
  while (is_interrupted == 0 && writer.goes_on() && !capture.has_ended()) {
    capture.read(kLook, add);
    writer.flush();
    progress.show(summary(writer, capture));
  }
  capture.end(add);
  writer.flush();
  progress.clear();
  const int reported = report(writer, capture, folder, is_json);
  if (writer.failure()) return fail(*writer.failure());
  if (is_interrupted == 0 && capture.has_ended()) {
    return fail({EPIPE, "the subnet '" + folder.name() + "' has ended"});
  }
  return reported;
}

}  // namespace

int capture_command(int argc, char** argv) {
  int exit_code = kSuccess;
  po::positional_options_description positional;
  positional.add("words", -1);
  const auto options =
      parse_options(argc, argv, capture_options(), positional, kCaptureUsage, exit_code);
  if (!options) return exit_code;
  auto words = arguments_of(*options, "words");
  std::string file;
  if (options->contains("write")) {
    file = (*options)["write"].as<std::string>();
  } else if (!words.empty()) {
    file = words.front();
    words.erase(words.begin());
  }
  if (file.empty()) return fail_usage("capture", "no file to write; - is the standard output");
  OutputRing::Limits limits;
  const bool has_size = options->contains("file-size");
  if (has_size) limits.file_size = (*options)["file-size"].as<std::uint64_t>();
  if (has_size && (limits.file_size == 0 || limits.file_size > kMillion)) {
    return fail_usage("capture", "--file-size is 1 to 1000000 million bytes");
  }
  limits.file_size *= kMillion;
  if (options->contains("files")) limits.files = (*options)["files"].as<std::uint32_t>();
  if (limits.files == 0 || limits.files > OutputRing::kMaxFiles) {
    return fail_usage("capture", "--files is 1 to " + std::to_string(OutputRing::kMaxFiles));
  }
  if (limits.files > 1 && (!has_size || file == "-")) {
    return fail_usage("capture", "--files needs --file-size and the name of a file");
  }
  std::optional<std::uint64_t> most;
  if (options->contains("count")) most = (*options)["count"].as<std::uint64_t>();
  if (most == 0U) return fail_usage("capture", "--count is 1 or more");
  if (file == "-" && options->contains("json")) {
    return fail_usage("capture", "--json needs the name of a file");
  }
  for (const auto& word : words) {
    const auto hca = fabric::HcaName::parse(word);
    if (!hca || hca->port != 0) {
      return fail_usage("capture", hca ? "an HCA is named without port" : hca.error().message);
    }
  }
  if (words.size() > control::kMaxCapturedHcas) {
    return fail_usage("capture", "at most " + std::to_string(control::kMaxCapturedHcas) + " HCAs");
  }
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  end_at_signals();
  auto capture = SubnetCapture::begin(*folder, words);
  if (!capture) return fail(capture.error());
  auto output = OutputRing::open(file, ipoib::erf::file_header(), limits);
  if (!output) return fail(output.error());
  return run(*folder, std::move(*capture), CaptureWriter(std::move(*output), most),
             options->contains("json"));
}

}  // namespace softib::cli
