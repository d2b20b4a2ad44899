// The options of ipoibd in groups, as --help shows them: names, placeholders, defaults and texts.
#pragma once

#include <boost/program_options/options_description.hpp>

#include "daemon/options/options.hpp"

namespace ipoib::daemon {

/// All options, which write to `out` when they are notified.
[[nodiscard]] boost::program_options::options_description all_options(Options& out);

}  // namespace ipoib::daemon
