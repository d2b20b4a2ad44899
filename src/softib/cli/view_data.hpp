// What the page of `softib view` shows: a running subnet of softib, or what ibnetdiscover and
// perfquery say of a real one.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::cli {

/// How old an answer to `show` may be: many pages cost the subnet process no more than one.
inline constexpr std::chrono::milliseconds kMostDataAge{500};

/// For one thread. Each function returns ENOENT for a name or group that is not there.
class ViewData {
 public:
  virtual ~ViewData() = default;
  /// The text of subnet.json; see view_site.hpp for it and the others.
  [[nodiscard]] virtual ipoib::Result<std::string> subnet() = 0;
  [[nodiscard]] virtual ipoib::Result<boost::json::object> layout() = 0;
  [[nodiscard]] virtual ipoib::Result<boost::json::object> switch_tables(std::string_view name) = 0;
  [[nodiscard]] virtual ipoib::Result<boost::json::object> group_exits(std::string_view mlid) = 0;
};

/// Asks the subnet process, and reads tables in the fabric file. While that process does not run,
/// the fabric file alone tells.
class SubnetViewData final : public ViewData {
 public:
  explicit SubnetViewData(fabric::SubnetFolder folder) : folder_(std::move(folder)) {}
  [[nodiscard]] ipoib::Result<std::string> subnet() override;
  [[nodiscard]] ipoib::Result<boost::json::object> layout() override;
  [[nodiscard]] ipoib::Result<boost::json::object> switch_tables(std::string_view name) override;
  [[nodiscard]] ipoib::Result<boost::json::object> group_exits(std::string_view mlid) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// The fabric file; the one that is there now.
  [[nodiscard]] ipoib::Result<fabric::Fabric> fabric();

  const fabric::SubnetFolder folder_;
  std::optional<fabric::Fabric> fabric_;
  std::string line_;  ///< the last answer of the subnet process
  Clock::time_point asked_{};
  boost::json::object layout_;  ///< of the last answer
};

/// Reads the files again when they have changed. They have no tables and no groups.
class FileViewData final : public ViewData {
 public:
  /// `perfquery` may be empty. "-" is the standard input, which is read once.
  FileViewData(std::string ibnetdiscover, std::string perfquery)
      : ibnetdiscover_(std::move(ibnetdiscover)), perfquery_(std::move(perfquery)) {}
  [[nodiscard]] ipoib::Result<std::string> subnet() override;
  [[nodiscard]] ipoib::Result<boost::json::object> layout() override;
  [[nodiscard]] ipoib::Result<boost::json::object> switch_tables(std::string_view name) override;
  [[nodiscard]] ipoib::Result<boost::json::object> group_exits(std::string_view mlid) override;

 private:
  using Times = std::pair<std::filesystem::file_time_type, std::filesystem::file_time_type>;
  [[nodiscard]] ipoib::Result<void> read();

  const std::string ibnetdiscover_;
  const std::string perfquery_;
  std::optional<Times> read_;  ///< times of the files that were read
  std::string subnet_;
  boost::json::object layout_;
};

}  // namespace softib::cli
