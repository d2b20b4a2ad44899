// ibarp: parses the command line, and runs the subcommand, or those of a file.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

#include "batch.hpp"
#include "output.hpp"
#include "program/limits.hpp"
#include "subcommand.hpp"

namespace {

using namespace ipoib::ibarp;  // NOLINT: this file is the program
using Verb = Command::Verb;

/// Runs `what`, and reports what it throws.
template <class What>
Status guarded(What what) {
  try {
    return what();
  } catch (const Failure& failure) {
    print_error(failure.what());
    return failure.status();
  } catch (const std::exception& error) {
    print_error(ipoib::program::text_of(error));
    return kFailed;
  }
}

Status run(const Command& command);

/// Runs the commands of a file until one fails; with --force, runs all of them. Returns the worst
/// status.
Status run_batch(const Command& options) {
  Batch batch(options.batch);
  Status worst = kDone;
  while (worst == kDone || options.force) {
    std::vector<std::string> words;
    bool has_words = false;
    const Status status = guarded([&] {
      has_words = batch.next(words);
      if (!has_words) return kDone;
      set_location(batch.location());
      const Command command = parse_words(options, words);
      if (command.verb == Verb::monitor || command.verb == Verb::top ||
          command.verb == Verb::capture) {
        misused("monitor, top and capture are not for --batch");
      }
      return run(command);
    });
    set_location({});
    worst = std::max(worst, status);
    flush_output();  // a program may write commands and read the results
    if (!has_words || print_failure() != 0) break;
  }
  return worst;
}

Status run(const Command& command) {
  if (command.verb == Verb::batch) return run_batch(command);
  if (command.verb == Verb::version) {
    print("ibarp " IPOIB_VERSION "\n");
    return kDone;
  }
  return subcommand_of(command.verb).run(command);
}

}  // namespace

int main(int argc, char** argv) {
  ipoib::program::report_file_size_limit();
  const Status status = guarded([&] {
    const Command command = parse_command(argc, argv);
    use_colors(command.color);
    return run(command);
  });
  // A reader such as head(1) may close the pipe early; that is no error.
  flush_output();
  if (print_failure() != 0 && print_failure() != EPIPE) {
    print_error(std::string("the output is incomplete: ") + std::strerror(print_failure()));
    return status == kDone ? kFailed : status;
  }
  return status;
}
