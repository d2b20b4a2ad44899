#include "softib/control/flat_json.hpp"

#include <gtest/gtest.h>

namespace softib::control {
namespace {

TEST(FlatJson, MembersByTheirKind) {
  const FlatJson answer(R"( {"ok": true, "node" : 17 ,"error":"a \"name\" \\ \/", "no":false} )");
  EXPECT_EQ(answer.boolean("ok"), true);
  EXPECT_EQ(answer.boolean("no"), false);
  EXPECT_EQ(answer.integer("node"), 17);
  EXPECT_EQ(answer.string("error"), R"(a "name" \ /)");
}

TEST(FlatJson, AnotherKindIsNoValue) {
  const FlatJson answer(R"({"ok":true,"node":1.5,"text":"1"})");
  EXPECT_FALSE(answer.integer("ok"));
  EXPECT_FALSE(answer.integer("node"));
  EXPECT_FALSE(answer.integer("text"));
  EXPECT_FALSE(answer.string("ok"));
  EXPECT_FALSE(answer.boolean("text"));
  EXPECT_FALSE(answer.boolean("missing"));
}

TEST(FlatJson, WhatIsNestedIsSkipped) {
  const FlatJson answer(R"({"a":{"node":1,"s":"}"},"b":[1,{"node":2},"]"],"node":3})");
  EXPECT_EQ(answer.integer("node"), 3);
}

TEST(FlatJson, TextThatIsNoObjectHasNoMembers) {
  for (const char* text : {"", "{", "}", "[]", "{\"node\"}", "{\"node\":", "{\"node\":1",
                           "{\"node:1}", "{node:1}", "{\"a\":}", "{\"a\":\"x}", "nonsense"}) {
    EXPECT_FALSE(FlatJson(text).integer("node")) << text;
  }
}

}  // namespace
}  // namespace softib::control
