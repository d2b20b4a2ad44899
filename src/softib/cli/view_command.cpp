// softib view: shows a subnet in a browser.
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "program/progress.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/view_data.hpp"
#include "softib/cli/view_server.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

constexpr std::string_view kViewUsage =
    "usage: softib view [OPTION]...\n\n"
    "Shows a subnet as a page in a browser on this machine, until it is interrupted: switches, "
    "hosts,\n"
    "partitions, groups with their trees, rates and drops as they change. Prints the address of "
    "the\n"
    "page, which other users of the machine do not know. With --ibnetdiscover, shows a real "
    "subnet.\n\n";

po::options_description view_options() {
  po::options_description options("Options");
  options.add_options()("port",
                        po::value<std::uint16_t>()->default_value(0, "")->value_name("PORT"),
                        "the TCP port of the page (default: any that is free)")(
      "open", "open the page in the browser of the desktop")(
      "ibnetdiscover", po::value<std::string>()->value_name("FILE"),
      "show what ibnetdiscover has printed into FILE, which is read again when it has changed; -: "
      "the standard input")("perfquery", po::value<std::string>()->value_name("FILE"),
                            "with --ibnetdiscover: outputs of perfquery, for rates and drops");
  return options;
}

/// The browser ends by itself; this process does not wait for it.
ipoib::Result<void> open_page(const std::string& url) {
  std::string program = "xdg-open";
  std::string address = url;
  std::array<char*, 3> words{program.data(), address.data(), nullptr};
  pid_t pid = 0;
  const int code = ::posix_spawnp(&pid, program.c_str(), nullptr, nullptr, words.data(), ::environ);
  if (code == 0) return {};
  return ipoib::Error{code,
                      std::string("cannot open the page with xdg-open: ") + std::strerror(code)};
}

int serve(ViewData& data, std::uint16_t port, bool is_opened) {
  // Says what is wrong before there is a page.
  {
    const ipoib::program::BlockingProgress progress("reading the subnet");
    if (const auto first = data.subnet(); !first) return fail(first.error());
  }
  boost::asio::io_context context;
  const auto server = ViewServer::listen(context, port, data);
  if (!server) return fail(server.error());
  boost::asio::signal_set ends(context, SIGINT, SIGTERM, SIGHUP);
  ends.async_wait([&](boost::system::error_code, int) { context.stop(); });
  (void)std::signal(SIGPIPE, SIG_IGN);  // a browser may close its connection early
  (void)std::signal(SIGCHLD, SIG_IGN);  // nobody waits for xdg-open
  if (const int printed = print((*server)->url() + '\n'); printed != kSuccess) return printed;
  if (is_opened) {
    if (const auto opened = open_page((*server)->url()); !opened) (void)fail(opened.error());
  }
  context.run();
  return kSuccess;
}

}  // namespace

int view_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options = parse_options(argc, argv, view_options(), {}, kViewUsage, exit_code);
  if (!options) return exit_code;
  const auto port = (*options)["port"].as<std::uint16_t>();
  const bool is_opened = options->contains("open");
  if (options->contains("ibnetdiscover")) {
    const auto counters =
        options->contains("perfquery") ? (*options)["perfquery"].as<std::string>() : std::string();
    const auto& file = (*options)["ibnetdiscover"].as<std::string>();
    if (file == "-" && counters == "-") return fail_usage("view", "only one file can be -");
    FileViewData data(file, counters);
    return serve(data, port, is_opened);
  }
  if (options->contains("perfquery"))
    return fail_usage("view", "--perfquery needs --ibnetdiscover");
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  SubnetViewData data(*folder);
  return serve(data, port, is_opened);
}

}  // namespace softib::cli
