// What check, explain and probe of the ibarp program find.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <string>

#include "program.hpp"

namespace ipoib::ibarp {

/// "verdict: text -> remedy" by subject.
using Lines = std::map<std::string, std::string>;

inline Lines lines_of(const Outcome& outcome) {
  Lines lines;
  const boost::json::value all = boost::json::parse(outcome.out);
  EXPECT_EQ(all.at(0).at("ok").as_bool(), outcome.status == 0);
  for (const boost::json::value& each : all.at(0).at("findings").as_array()) {
    std::string line(each.at("verdict").as_string());
    line += ": " + std::string(each.at("text").as_string());
    if (const auto* const remedy = each.as_object().if_contains("remedy")) {
      line += " -> " + std::string(remedy->as_string());
    }
    lines[std::string(each.at("subject").as_string())] = line;
  }
  return lines;
}

}  // namespace ipoib::ibarp
