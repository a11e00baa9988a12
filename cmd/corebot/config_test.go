package main

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/config"
)

func TestSettingsArePrintedInColumnsWithTheirSources(t *testing.T) {
	var out strings.Builder
	long := strings.Repeat("x", widestColumn+5)
	err := printValues(&out, []config.Value{
		{Key: "llm.model", Value: "m", From: config.FromEnvironment, Where: "OPENAI_MODEL"},
		{
			Key: "llm.api_key", Value: config.NewSecret("hunter2"), From: config.FromFile, Where: "/home/corebot.yaml",
			Reference: "env:KEY",
		},
		{Key: "webhook.token", Value: config.Secret{}, From: config.FromDefault},
		{Key: "bus.lease", Value: "30s", From: config.FromDefault},
		{Key: "llm.base_url", Value: long, From: config.FromFile, Where: "/home/corebot.yaml"},
	})
	pad := strings.Repeat(" ", widestColumn)
	column := func(text string) string { return (text + pad)[:widestColumn] }
	want := "llm.model      " + column("m") + "  environment OPENAI_MODEL\n" +
		"llm.api_key    " + column("***") + "  file /home/corebot.yaml (env:KEY)\n" +
		"webhook.token  " + column("-") + "  default\n" +
		"bus.lease      " + column("30s") + "  default\n" +
		"llm.base_url   " + long + "  file /home/corebot.yaml\n"
	if err != nil || out.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, out.String(), want)
	}
}

func TestASettingCannotDriveTheTerminal(t *testing.T) {
	var out strings.Builder
	err := printValues(&out, []config.Value{{
		Key: "llm.model", Value: "\x1b[2J\n\u202e", From: config.FromFile,
		Where: "/\x1b[2J/corebot.yaml",
	}})
	warn(&out, []string{"\x1b[2J"})
	if err != nil || strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("got %v %q", err, out.String())
	}
}

func TestTheConfigGroupTakesMoreCommands(t *testing.T) {
	cmd := newConfig(&shell{}, newVersion())
	if found, _, err := cmd.Find([]string{"version"}); err != nil || found.Name() != "version" {
		t.Errorf("got %v, %v", found.Name(), err)
	}
}
