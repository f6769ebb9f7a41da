// Command pod-security prints which pods the Pod Security Standard "restricted" forbids, by the checks of Kubernetes' own
// admission controller.
//
// Arguments: versions of the standard, such as v1.37. Standard input: pod templates by name, as one JSON object. Standard
// output: for each pod that is forbidden a list of reasons, as one JSON object.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "pod-security: %v\n", err)
		os.Exit(2)
	}
}

func run(versions []string) error {
	if len(versions) == 0 {
		return errors.New("name at least one version of the standard, such as v1.37")
	}
	pods := map[string]corev1.PodTemplateSpec{}
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields() // a field that is not read is not checked
	if err := decoder.Decode(&pods); err != nil {
		return fmt.Errorf("standard input: expected pod templates by name: %w", err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	forbidden := map[string][]string{}
	for _, text := range versions {
		version, err := api.ParseVersion(text)
		if err != nil {
			return err
		}
		level := api.LevelVersion{Level: api.LevelRestricted, Version: version}
		for name, pod := range pods {
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
			if !result.Allowed {
				forbidden[name] = append(forbidden[name], fmt.Sprintf("%s: %s", text, result.ForbiddenDetail()))
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(forbidden)
}
