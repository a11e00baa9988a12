package channels

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// Admissions say who may talk where. The front door asks for each message; the scheduler asks for the maker of a task.
type Admissions struct {
	Chats  Register
	Access map[Account]policy.Access // who may talk, by account; on one that is not there nobody may
	Groups map[Account]GroupRule     // by account; one that is not there has [GroupsAll]
	// Pairings are asked where access is "pairing"; nil: nobody is paired there.
	Pairings Pairings
}

// Judge says whether a principal may talk in a conversation. group says that others than the principal read it.
func (a Admissions) Judge(ctx context.Context, p corebot.Principal, k corebot.Key, group bool) (policy.Decision,
	error,
) {
	chat, err := a.Chats.Admission(ctx, k)
	if err != nil {
		return policy.Decision{}, fmt.Errorf("read who may talk in chat %s: %w", k, err)
	}
	account := Account{k.Channel, k.Account}
	access, known := a.Access[account]
	switch {
	case !known:
		return policy.Decision{Rule: noChannel, Reason: "there is no such channel"}, nil
	case group && a.Groups[account] == GroupsOff:
		return policy.Decision{Rule: groupsOff, Reason: "this account does not talk in groups"}, nil
	}
	if access.Pairs() && a.Pairings != nil && p.ID != "" {
		if chat.Paired, err = a.Pairings.Paired(ctx, p); err != nil {
			return policy.Decision{}, err
		}
	}
	return access.Admit(p, k, chat), nil
}

// noChannel is the rule that refuses messages of an account that the settings do not have.
const noChannel = "no-channel"

// groupsOff is the rule that refuses messages of groups where an account does not talk in them.
const groupsOff = "groups-off"

// refusals are the rules by which messages of an account can be refused.
func (a Admissions) refusals(of Account) []string {
	rules := a.Access[of].Refusals()
	if a.Groups[of] == GroupsOff {
		rules = append(rules, groupsOff)
	}
	return rules
}
