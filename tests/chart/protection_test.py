"""Rights, certificates and networks of the pods, one sentence a test, on what is rendered."""

import unittest

import chart
from chart_case import Case


class SecurityTest(Case):
    def test_containers_run_as_a_numeric_user_that_is_not_root(self):
        for name, objects in chart.every_ci():
            if name != "openshift":
                for owner, pod in objects.pods().items():
                    with self.subTest(values=name, owner=owner):
                        self.assertEqual(pod["spec"]["securityContext"]["runAsUser"], 10001)
                        self.assertEqual(chart.main_container(pod)["securityContext"]["runAsUser"], 10001)

    def test_every_container_satisfies_the_restricted_pod_security_standard(self):
        for container in self.each_container():
            context = container["securityContext"]
            self.assertIs(context["runAsNonRoot"], True)
            self.assertIs(context["allowPrivilegeEscalation"], False)
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
        for pod in self.each_pod():
            self.assertEqual(pod["spec"]["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})

    def test_the_root_file_system_is_read_only_and_tmp_is_writable(self):
        for container in self.each_container():
            self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
        for pod in self.each_pod():
            mounts = {mount["name"]: mount["mountPath"] for mount in chart.main_container(pod)["volumeMounts"]}
            self.assertEqual(mounts["tmp"], "/tmp")
            self.assertIn({"name": "tmp", "emptyDir": {}}, pod["spec"]["volumes"])

    def test_volumes_are_handed_over_by_fs_group_only_where_needed(self):
        for objects in self.each():
            for server in objects.servers():
                context = server["spec"]["template"]["spec"]["securityContext"]
                self.assertEqual(context["fsGroupChangePolicy"], "OnRootMismatch")

    def test_the_chart_has_no_init_container_in_its_servers(self):
        for name, objects in chart.every_ci():
            if name != "passthrough":
                for server in objects.servers():
                    self.assertNotIn("initContainers", server["spec"]["template"]["spec"])

    def test_users_can_be_left_to_the_platform(self):
        for owner, pod in chart.render_ci("openshift").pods().items():
            with self.subTest(owner=owner):
                for context in (pod["spec"]["securityContext"], chart.main_container(pod)["securityContext"]):
                    self.assertFalse({"runAsUser", "runAsGroup", "fsGroup"} & set(context))
                    self.assertIs(context["runAsNonRoot"], True)

    def test_no_pod_gets_a_token_of_the_kubernetes_api(self):
        for pod in self.each_pod():
            self.assertIs(pod["spec"]["automountServiceAccountToken"], False)
        self.assertIs(chart.render_ci("minimal").one("ServiceAccount")["automountServiceAccountToken"], False)

    def test_no_service_of_the_namespace_leaks_into_the_environment(self):
        # A service named dslide-... would set variables DSLIDE_..., which the programs read.
        for pod in self.each_pod():
            self.assertIs(pod["spec"]["enableServiceLinks"], False)

    def test_the_chart_makes_no_role_and_no_secret(self):
        for name, objects in chart.every_ci():
            if name != "passthrough":
                kinds = {item["kind"] for item in objects}
                self.assertFalse(kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret"})

    def test_every_image_is_our_own(self):
        for container in self.each_container():
            self.assertRegex(container["image"], r"(^|/)dslide[:@]")


class TlsTest(Case):
    def test_plaintext_needs_a_value_that_says_insecure(self):
        for name, objects in chart.every_ci():
            for server in objects.servers():
                given = chart.flags(chart.main_container(server["spec"]["template"]))
                with self.subTest(values=name):
                    self.assertEqual("insecure" in given, name not in ("tls", "ha"))
                    self.assertNotEqual("insecure" in given, "tls-ca" in given)

    def test_certificates_are_mounted_as_a_folder_so_that_rotation_arrives(self):
        for name in ("tls", "ha"):
            for owner, pod in chart.render_ci(name).pods().items():
                if not owner.startswith("Pod "):
                    mounts = [mount for mount in chart.main_container(pod)["volumeMounts"] if mount["name"] == "tls"]
                    self.assertEqual(mounts, [{"name": "tls", "mountPath": "/etc/dslide/tls", "readOnly": True}])

    def test_each_part_uses_its_own_certificate(self):
        secrets = {}
        for owner, pod in chart.render_ci("tls").pods().items():
            for volume in pod["spec"]["volumes"]:
                if "secret" in volume and volume["name"] != "crl":
                    secrets.setdefault(owner.split("-")[-1 if "trainer" not in owner else -2], set()).add(volume["secret"]["secretName"])
        self.assertEqual(secrets["shard"], {"dslide-shard-tls"})
        self.assertEqual(secrets["coordinator"], {"dslide-coordinator-tls"})
        self.assertEqual(secrets["trainer"], {"dslide-trainer-tls"})
        self.assertEqual(secrets["test"], {"dslide-operator-tls", "dslide-trainer-tls"})

    def test_keys_are_not_readable_by_others(self):
        for owner, pod in chart.render_ci("tls").pods().items():
            for volume in pod["spec"]["volumes"]:
                if "secret" in volume:
                    self.assertEqual(volume["secret"]["defaultMode"] & 0o007, 0, owner)

    def test_certificates_of_shards_cover_every_pod_of_the_headless_service(self):
        names = chart.render_ci("ha").one("Certificate", "-shard")["spec"]["dnsNames"]
        self.assertIn("*.dslide-shard-headless.ns.svc", names)
        self.assertIn("*.dslide-shard-headless.ns.svc.cluster.local", names)

    def test_every_address_in_a_flag_is_covered_by_the_certificate_behind_it(self):
        objects = chart.render_ci("ha")
        covered = [
            name for certificate in objects.all("Certificate") for name in certificate["spec"].get("dnsNames", [])
        ]
        shard = chart.flags(chart.main_container(objects.shards()["spec"]["template"]))
        for address in (shard["coordinator"], shard["advertise"].replace("$(POD_NAME)", "dslide-shard-0")):
            host = address.rpartition(":")[0]
            self.assertTrue(
                any(host == name or (name.startswith("*.") and host.partition(".")[2] == name[2:]) for name in covered),
                f"{host} is in none of {covered}",
            )

    def test_each_certificate_names_its_role(self):
        for certificate in chart.render_ci("ha").all("Certificate"):
            role = certificate["metadata"]["labels"]["app.kubernetes.io/component"]
            self.assertEqual(certificate["spec"]["uris"], [f"dslide://dslide/{role}"])

    def test_certificates_are_good_for_both_ends_of_a_connection(self):
        for certificate in chart.render_ci("ha").all("Certificate"):
            self.assertLessEqual({"server auth", "client auth"}, set(certificate["spec"]["usages"]))
            self.assertEqual(certificate["spec"]["privateKey"]["rotationPolicy"], "Always")


class RevocationTest(Case):
    """Lists of revoked certificates: mounted and named wherever certificates are checked."""

    MOUNT = {"name": "crl", "mountPath": "/etc/dslide/crl", "readOnly": True}

    def readers(self, objects):
        """(owner, pod, container) of everything that talks over TLS."""
        for owner, pod in objects.pods().items():
            for container in pod["spec"]["containers"] + (pod["spec"].get("initContainers") or []):
                if any(mount["mountPath"] == "/etc/dslide/tls" for mount in container.get("volumeMounts", [])):
                    yield owner, pod, container

    def directory(self, container):
        """Where the container's program looks for lists, by its flag or its environment."""
        env = {item["name"]: item.get("value") for item in container.get("env") or []}
        return chart.flags(container).get("tls-crl-dir", env.get("DSLIDE_TLS_CRL_DIR"))

    def test_whoever_checks_certificates_has_the_lists(self):
        names = []
        for owner, pod, container in self.readers(chart.render_ci("tls")):
            names.append(container["name"])
            with self.subTest(owner=owner, container=container["name"]):
                self.assertEqual(self.directory(container), "/etc/dslide/crl")
                # Without subPath: what is added to the secret arrives in pods that run.
                self.assertEqual([mount for mount in container["volumeMounts"] if mount["name"] == "crl"], [self.MOUNT])
                self.assertIn({"name": "crl", "secret": {"secretName": "dslide-crl", "defaultMode": 0o440}}, pod["spec"]["volumes"])
        self.assertEqual(sorted(names), ["coordinator", "shard", "status", "train", "trainer"])

    def test_lists_may_come_from_a_config_map(self):
        values = {"tls": {"enabled": True, "existingSecret": "s", "crl": {"configMap": "lists"}}}
        readers = list(self.readers(chart.render(overrides=values)))
        self.assertEqual(len(readers), 4)
        for owner, pod, container in readers:
            with self.subTest(owner=owner, container=container["name"]):
                self.assertEqual(self.directory(container), "/etc/dslide/crl")
                self.assertIn(self.MOUNT, container["volumeMounts"])
                self.assertIn({"name": "crl", "configMap": {"name": "lists"}}, pod["spec"]["volumes"])

    def test_without_lists_nothing_speaks_of_them(self):
        readers = list(self.readers(chart.render_ci("ha")))
        self.assertGreaterEqual(len(readers), 4)
        for owner, pod, container in readers:
            with self.subTest(owner=owner, container=container["name"]):
                self.assertIsNone(self.directory(container))
                self.assertNotIn("crl", [volume["name"] for volume in pod["spec"]["volumes"]])


class NetworkTest(Case):
    def policy(self, part):
        return chart.render_ci("ha").one("NetworkPolicy", f"-{part}")["spec"]

    def test_policies_are_off_by_default_and_cover_every_part(self):
        self.assertEqual(chart.render_ci("minimal").all("NetworkPolicy"), [])
        parts = {item["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for item in chart.render_ci("ha").all("NetworkPolicy")}
        self.assertEqual(parts, {"shard", "coordinator", "trainer", "test"})

    def test_policies_deny_what_they_do_not_name(self):
        for item in chart.render_ci("ha").all("NetworkPolicy"):
            self.assertEqual(item["spec"]["policyTypes"], ["Ingress", "Egress"])
            for rule in item["spec"]["ingress"]:
                self.assertTrue(rule["from"] and rule["ports"])

    def test_grpc_is_open_to_the_release_and_to_named_clients(self):
        rule = self.policy("shard")["ingress"][0]
        self.assertEqual([port["port"] for port in rule["ports"]], [7010])
        self.assertIn({"podSelector": {"matchLabels": {"dslide-client": "true"}}}, rule["from"])

    def test_metrics_are_open_to_the_monitoring_namespace(self):
        rule = self.policy("shard")["ingress"][1]
        self.assertEqual([port["port"] for port in rule["ports"]], [7011])
        self.assertIn({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}, rule["from"])

    def test_pods_may_ask_dns_and_their_peers(self):
        rules = self.policy("shard")["egress"]
        self.assertEqual({port["port"] for port in rules[0]["ports"]}, {53})
        self.assertEqual({port["port"] for port in rules[1]["ports"]}, {7000, 7001, 7010, 7011})


if __name__ == "__main__":
    chart.renderer()
    chart.run_tests()
